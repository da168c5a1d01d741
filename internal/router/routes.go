package router

import (
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
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

func newRoutes(routes []Route) ([]route, []string, error) {
	var set routeSet
	compiled := make([]route, len(routes))
	for i := range routes {
		c, err := set.compile(fmt.Sprintf("routes[%d]", i), &routes[i])
		if err != nil {
			return nil, nil, err
		}
		compiled[i] = c
	}
	return compiled, set.names, nil
}

func (s *routeSet) compile(setting string, r *Route) (route, error) {
	c := route{setting: setting, sanitize: r.Sanitize, key: r.Key, partition: r.Partition}
	for _, name := range slices.Sorted(maps.Keys(r.Match)) {
		re, err := fullMatch(r.Match[name])
		if err != nil {
			return route{}, fmt.Errorf("%s.match.%s: bad regular expression: %w", setting, name, err)
		}
		if name == "" {
			return route{}, cdc.Fixable("give a column", "%s.match: an empty name", setting)
		}
		c.match = append(c.match, matcher{s.slot(name), re})
	}
	if group := c.repeatedGroup(); group != "" {
		return route{}, cdc.Fixable("rename one", "%s.match: the group %s stands in it twice", setting, group)
	}
	var err error
	if c.topic, err = s.template(&c, r.Topic); err != nil {
		return route{}, fmt.Errorf("%s.topic: %w", setting, err)
	}
	return c, nil
}

// fullMatch compiles an expression that must match the whole value. The expression is compiled alone first, so that
// unbalanced brackets are reported and do not pair up with the added ones.
func fullMatch(expression string) (*regexp.Regexp, error) {
	if _, err := regexp.Compile(expression); err != nil {
		return nil, err
	}
	return regexp.Compile(`\A(?:` + expression + `)\z`)
}

func (c *route) repeatedGroup() string {
	seen := make(map[string]bool)
	for _, m := range c.match {
		for _, group := range m.re.SubexpNames() {
			if group != "" && seen[group] {
				return group
			}
			seen[group] = true
		}
	}
	return ""
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
func (s *routeSet) template(c *route, text string) ([]part, error) {
	pieces, ok := outbox.CutTemplate(text)
	if !ok {
		return nil, cdc.Fixable("write ${column}", "%q has a ${ without a name and a closing }", text)
	}
	var parts []part
	for _, piece := range pieces {
		if piece.Name != "" {
			parts = append(parts, s.variable(c, piece.Name))
		} else {
			parts = append(parts, part{literal: piece.Text})
		}
	}
	return parts, nil
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
