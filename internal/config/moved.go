package config

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// move is a setting of 0.1.0 that has another name, or none. Its old name is read for one release.
type move struct {
	from string
	to   string // "": the setting is gone, and its value has no effect
	why  string // what there is in its place
}

// moves are made in this order: a section is moved after what was in it, and loses first what is gone.
func moves() []move {
	return []move{
		{from: "window", to: "in_flight"},
		{from: "record.source", to: "ce_source"},
		{from: "record", why: "it held only what is ce_source now"},
		{from: "position.conflict", why: "`cdc-relay position reset --skip-events` continues from a slot that is ahead of the checkpoint"},
		{from: "position", why: "it held only conflict"},
		{from: "source.mysql.flavor", why: "the server says what it is"},
		{from: "source.mysql.server_id", why: "the relay draws one"},
		{from: "source.postgres.failover", why: "from PostgreSQL 17 on setup and repair create a failover slot"},
		{from: "partitions.every", to: "retention.every"},
		{from: "partitions.ttl", to: "retention.keep"},
		{from: "partitions.ahead", to: "retention.ahead"},
		{from: "partitions.drop", to: "retention.drop"},
		{from: "partitions", to: "retention"},
		{from: "retention.delete.every", to: "retention.every"},
		{from: "retention.delete.pause", why: "it is 100ms"},
		{from: "retention.delete.older_than", to: "retention.keep"},
		{from: "retention.delete.batch", to: "retention.batch"},
		{from: "dead_letter.max_held_keys", why: "dead_letter.max_held_events limits them too"},
		{from: "dead_letter.retry_after", to: "dead_letter.auto_retry.after"},
		{from: "dead_letter.max_attempts", to: "dead_letter.auto_retry.attempts"},
	}
}

// migrate gives the settings of a file their present names.
func (d *document) migrate(root *yaml.Node) {
	d.oneAge(root)
	d.malformed(root)
	for _, m := range moves() {
		if in, i := find(root, m.from); i >= 0 && len(d.problems) == 0 {
			d.move(root, in, i, m)
		}
	}
}

// move moves the setting at an index of a section. A new section is made where the old one is.
func (d *document) move(root, from *yaml.Node, i int, m move) {
	key, value := from.Content[i], from.Content[i+1]
	says := "is now " + m.to
	to, there := find(root, m.to)
	if there >= 0 && (value.Kind != yaml.ScalarNode || to.Content[there+1].Value != value.Value) {
		d.reportAt(place{line: key.Line, column: key.Column}, m.from, "remove it", "is set beside %s, which is its name now", m.to)
		return
	}
	from.Content = slices.Delete(from.Content, i, i+2)
	switch {
	case m.to == "":
		says = "has no effect any more: " + m.why
	case there < 0:
		first, _, _ := strings.Cut(m.from, ".")
		spot := func(in *yaml.Node) int {
			if in == from {
				return i
			} else if j := index(in, first); in == root && j >= 0 {
				return j + 2
			}
			return len(in.Content)
		}
		steps, in := strings.Split(m.to, "."), root
		for _, step := range steps[:len(steps)-1] {
			j := index(in, step)
			if j < 0 {
				j = spot(in)
				in.Content = slices.Insert(in.Content, j, text(step, key), &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Style: from.Style, Line: key.Line, Column: key.Column})
			}
			if in = in.Content[j+1]; in.Kind != yaml.MappingNode {
				d.reportAt(place{line: in.Line, column: in.Column}, step, "write settings as lines of key: value", "is %s", kind(in))
				return
			}
		}
		key.Value = steps[len(steps)-1]
		in.Content = slices.Insert(in.Content, spot(in), key, value)
	}
	if m.to != "" {
		prune(root, from, m)
	}
	d.warn(key, m.from+" "+says)
}

// oneAge is about the sections partitions and retention, of which each had an age of its own.
func (d *document) oneAge(root *yaml.Node) {
	_, parts := find(root, "partitions")
	in, rows := find(root, "retention.delete")
	days, ttl := find(root, "partitions.ttl")
	switch {
	case parts < 0 && rows >= 0: // also rows of tables that setup created were deleted
		in.Content = append(in.Content, text("partitions", in), &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: "false", Line: in.Line, Column: in.Column})
		return
	case rows >= 0 && !mapped(root): // beside partitions it was for tables with columns
		key := in.Content[rows]
		in.Content = slices.Delete(in.Content, rows, rows+2)
		d.warn(key, "retention.delete has no effect any more: no table has columns")
		return
	case parts < 0 || rows < 0 && (ttl < 0 || !mapped(root)):
		return
	}
	if old, age := find(root, "retention.delete.older_than"); age >= 0 && ttl >= 0 && old.Content[age+1].Value == days.Content[ttl+1].Value {
		return
	}
	key := root.Content[parts]
	d.reportAt(place{line: key.Line, column: key.Column}, "partitions", "set retention.keep to one age for all tables, or run a relay for each kind of table",
		"gives tables with partitions another age than tables with columns have, and there is one now, retention.keep")
}

// mapped reports whether a table has columns.
func mapped(root *yaml.Node) bool {
	in, i := find(root, "tables")
	return i >= 0 && slices.ContainsFunc(in.Content[i+1].Content, func(t *yaml.Node) bool { return index(t, "columns") >= 0 })
}

// malformed sets errors.malformed, which followed errors.unroutable and follows errors.default now.
func (d *document) malformed(root *yaml.Node) {
	in, i := find(root, "errors.unroutable")
	if i < 0 || index(in, "malformed") >= 0 || index(in, "default") >= 0 || in.Content[i+1].Value == "stop" {
		return
	}
	key, value := in.Content[i], in.Content[i+1]
	in.Content = slices.Insert(in.Content, i+2, text("malformed", key), &yaml.Node{Kind: value.Kind, Tag: value.Tag, Value: value.Value, Style: value.Style, Line: value.Line, Column: value.Column})
	d.warn(key, "errors.malformed is "+value.Value+", as errors.unroutable, until the file sets it")
}

func (d *document) warn(key *yaml.Node, what string) {
	d.moved = append(d.moved, Warning{fmt.Sprintf("%s:%d: %s", d.name, key.Line, what), "let `cdc-relay config migrate` rewrite the file"})
}

// prune removes a section that has nothing left. What was said above it is said above its heir.
func prune(root, section *yaml.Node, m move) {
	of := m.from[:max(0, strings.LastIndexByte(m.from, '.'))]
	in, i := find(root, of)
	if len(section.Content) > 0 || i < 0 {
		return
	}
	was := in.Content[i]
	in.Content = slices.Delete(in.Content, i, i+2)
	first, _, _ := strings.Cut(m.to, ".")
	if heir := root.Content[index(root, first)]; heir.HeadComment == "" {
		heir.HeadComment = was.HeadComment
	}
}

// find returns the section of a setting and the index of its key there, or -1.
func find(root *yaml.Node, path string) (in *yaml.Node, i int) {
	in = root
	steps := strings.Split(path, ".")
	for _, step := range steps[:len(steps)-1] {
		if i = index(in, step); i < 0 {
			return nil, -1
		}
		in = in.Content[i+1]
	}
	return in, index(in, steps[len(steps)-1])
}

// index returns the index of a key in a section, or -1.
func index(in *yaml.Node, key string) int {
	for i := 0; in.Kind == yaml.MappingNode && i+1 < len(in.Content); i += 2 {
		if in.Content[i].Value == key {
			return i
		}
	}
	return -1
}
