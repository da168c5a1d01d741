package router

import (
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/cdc-relay/cdc-relay/internal/outbox"
)

// route is a compiled route.
type route struct {
	setting string // "routes[0]"
	match   []matcher
	topic   []part
	// sanitize replaces what Kafka refuses in what rows hold.
	sanitize       bool
	key, partition *outbox.Part // nil: see Route
}

// matcher compares one column with its expression.
type matcher struct {
	slot int
	re   *regexp.Regexp
}

// part is a piece of a topic template: a literal, a group of one of the route's matchers, or a slot.
type part struct {
	literal string
	name    string // as the template calls it; "" for a literal
	matcher int    // of the group; -1: the slot
	group   int
	slot    int
}

// routeSet compiles routes and collects the columns that they read.
type routeSet struct{ names []string }

func newRoutes(routes []Route) ([]route, []string) {
	var set routeSet
	compiled := make([]route, len(routes))
	for i := range routes {
		compiled[i] = set.compile(fmt.Sprintf("routes[%d]", i), &routes[i])
	}
	return compiled, set.names
}

func (s *routeSet) compile(setting string, r *Route) route {
	c := route{setting: setting, sanitize: r.Sanitize, key: r.Key, partition: r.Partition}
	for _, name := range slices.Sorted(maps.Keys(r.Match)) {
		re, _ := outbox.FullMatch(r.Match[name]) // valid by now
		c.match = append(c.match, matcher{s.slot(name), re})
	}
	c.topic = s.template(&c, r.Topic)
	return c
}

// slot returns the slot of a role or column.
func (s *routeSet) slot(name string) int {
	if i := slices.Index(s.names, name); i >= 0 {
		return i
	}
	s.names = append(s.names, name)
	return len(s.names) - 1
}

// template returns the parts of a topic template.
func (s *routeSet) template(c *route, text string) (parts []part) {
	pieces, _ := outbox.CutTemplate(text) // valid by now
	for _, piece := range pieces {
		if piece.Name != "" {
			parts = append(parts, s.variable(c, piece.Name))
		} else {
			parts = append(parts, part{literal: piece.Text})
		}
	}
	return parts
}

func (s *routeSet) variable(c *route, name string) part {
	for i, m := range c.match {
		if group := m.re.SubexpIndex(name); group > 0 {
			return part{name: name, matcher: i, group: group}
		}
	}
	return part{name: name, matcher: -1, slot: s.slot(name)}
}

// settingOf names the first setting that reads a slot, of a route that may match a row of the schema, or of any if p is nil; "": none does.
func (r *Router) settingOf(slot int, p *plan) string {
	for i := range r.routes {
		c := &r.routes[i]
		if p != nil && !c.takesRowsOf(p) {
			continue
		}
		if slices.ContainsFunc(c.match, func(m matcher) bool { return m.slot == slot }) {
			return c.setting + ".match." + r.names[slot]
		}
		if slices.ContainsFunc(c.topic, func(p part) bool { return p.name != "" && p.matcher < 0 && p.slot == slot }) {
			return c.setting + ".topic"
		}
	}
	return ""
}
