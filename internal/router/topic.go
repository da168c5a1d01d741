package router

import (
	"encoding/binary"
	"slices"
	"strings"

	"github.com/cdc-relay/cdc-relay/internal/outbox"
)

const (
	// maxTopicName is the longest topic name that Kafka takes (MAX_NAME_LENGTH in
	// org.apache.kafka.common.internals.Topic).
	maxTopicName = 249
	// maxTopics and maxKeys, in bytes, limit a cache of topics; a full one is cleared.
	maxTopics, maxKeys = 1 << 16, 4 << 20
	// maxRouteKey is the longest route key that is cached, in bytes.
	maxRouteKey = 512
)

// cache holds what was found for a key, so that an event allocates nothing.
type cache[V any] struct {
	found map[string]V
	bytes int // of the keys
}

func (c *cache[V]) put(key string, v V) {
	if c.found == nil || len(c.found) >= maxTopics || c.bytes+len(key) > maxKeys {
		*c = cache[V]{found: make(map[string]V)}
	}
	c.found[key] = v
	c.bytes += len(key)
}

// topic is the result of routing a row: a topic, or the fault.
type topic struct {
	name  string
	fault *outbox.Fault
	at    *placement // of the route, also with a fault; nil: the table's key
	by    string     // the topic column, or the route's setting
}

// topic finds the row's topic: the topic column's, else that of the first route that matches.
func (e *encoder) topic() topic {
	name, f := e.row.Text(&e.p.Parts[outbox.Topic])
	if f != nil {
		return topic{fault: f}
	}
	if len(name) == 0 {
		return e.routed()
	}
	by := e.p.Parts[outbox.Topic].Name
	known, ok := e.r.known.found[string(name)]
	if !ok {
		known, f = e.r.intern(by, string(name))
	}
	return topic{name: known, fault: f, by: by}
}

// intern keeps one string for each topic name, so that a record does not allocate one.
func (r *Router) intern(holder, name string) (string, *outbox.Fault) {
	topic, f := r.prefixed(name, holder, "holds", fixColumn)
	if f != nil {
		return "", f
	}
	r.known.put(name, topic)
	return topic, nil
}

// prefixed returns the topic for a name, which the holder holds or makes, or the fault of one that is no topic for events.
func (r *Router) prefixed(name, holder, verb, fix string) (string, *outbox.Fault) {
	if r.prefix != "" {
		name, holder, verb = r.prefix+name, "topic_prefix with what "+holder+" "+verb, "is"
	}
	switch whose := holder + " " + verb; {
	case !validTopic(name):
		return name, badTopic(whose, fix)
	case slices.Contains(r.reserved, name):
		return name, reservedTopic(whose, fix)
	}
	return name, nil
}

// routed returns the topic that the routes give the row. Results are cached by the values that routes read.
func (e *encoder) routed() topic {
	if f := e.read(); f != nil {
		return topic{fault: f}
	}
	key := e.routeKey()
	if t, ok := e.p.topics.found[string(key)]; ok {
		return t
	}
	t := e.resolve()
	if len(key) <= maxRouteKey {
		e.p.topics.put(string(key), t)
	}
	return t
}

// read reads what routes read of the row.
func (e *encoder) read() *outbox.Fault {
	e.slots = e.slots[:0]
	for i := range e.p.slots {
		text, f := e.row.Text(&e.p.slots[i])
		if f != nil {
			return f
		}
		e.slots = append(e.slots, text)
	}
	return nil
}

// routeKey is what the row's route depends on: each value with its length before it, so that no two rows
// of different values share a key.
func (e *encoder) routeKey() []byte {
	e.key = e.key[:0]
	for _, text := range e.slots {
		if text == nil {
			e.key = append(e.key, 0)
			continue
		}
		e.key = binary.AppendUvarint(e.key, uint64(len(text))+1)
		e.key = append(e.key, text...)
	}
	return e.key
}

// resolve returns the topic of the first route that matches.
func (e *encoder) resolve() topic {
	for i := range e.r.routes {
		c := &e.r.routes[i]
		groups, ok := c.matches(e.slots)
		if !ok {
			continue
		}
		name, f := c.render(e.slots, groups)
		if f == nil {
			name, f = e.r.prefixed(name, "the template of "+c.setting, "makes", fixRoute)
		}
		return topic{name, f, e.p.placements[i], c.setting}
	}
	return topic{fault: noRoute()}
}

// matches returns what the groups of each matcher hold.
func (c *route) matches(slots [][]byte) ([][][]byte, bool) {
	groups := make([][][]byte, len(c.match))
	for i, m := range c.match {
		if slots[m.slot] == nil {
			return nil, false
		}
		if groups[i] = m.re.FindSubmatch(slots[m.slot]); groups[i] == nil {
			return nil, false
		}
	}
	return groups, true
}

func (c *route) render(slots [][]byte, groups [][][]byte) (string, *outbox.Fault) {
	var b strings.Builder
	for _, p := range c.topic {
		text := p.literal
		if p.name != "" {
			if p.matcher >= 0 {
				text = string(groups[p.matcher][p.group])
			} else {
				text = string(slots[p.slot])
			}
			if text == "" {
				return "", emptyVariable(c.setting, p.name)
			}
			if c.sanitize {
				text = sanitized(text)
			}
		}
		b.WriteString(text)
	}
	return b.String(), nil
}

// validTopic reports whether Kafka takes the name for a topic.
func validTopic(name string) bool {
	return name != "" && len(name) <= maxTopicName && name != "." && name != ".." && badTopicByte(name) < 0
}

// sanitized replaces each byte that a topic's name cannot hold.
func sanitized(text string) string {
	b := []byte(text)
	for i := range b {
		if badTopicByte(text[i:i+1]) == 0 {
			b[i] = '_'
		}
	}
	return string(b)
}

// badTopicByte returns the index of the first byte that a topic's name cannot hold, or -1.
func badTopicByte(name string) int {
	for i := range len(name) {
		c := name[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-' {
			return i
		}
	}
	return -1
}
