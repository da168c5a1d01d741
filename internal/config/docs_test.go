package config_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/invopop/jsonschema"
)

// renderDocs returns docs/configuration.md: an introduction and a table of settings for each section.
func renderDocs(s *jsonschema.Schema) []byte {
	var b strings.Builder
	b.WriteString(introduction)
	for p := s.Properties.Oldest(); p != nil; p = p.Next() {
		fmt.Fprintf(&b, "\n## %s\n", p.Key)
		if p.Value.Properties != nil {
			fmt.Fprintf(&b, "\n%s\n", p.Value.Description)
		}
		b.WriteString("\n| setting | value | default | |\n|---|---|---|---|\n")
		renderRows(&b, p.Key, p.Value, slices.Contains(s.Required, p.Key))
	}
	return []byte(b.String())
}

func renderRows(b *strings.Builder, path string, s *jsonschema.Schema, required bool) {
	if s.Properties == nil || s.Extras["x-optional"] == true {
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", path, valueOf(s), defaultOf(s, required), s.Description)
	}
	switch {
	case s.Properties != nil:
		for p := s.Properties.Oldest(); p != nil; p = p.Next() {
			renderRows(b, path+"."+p.Key, p.Value, slices.Contains(s.Required, p.Key))
		}
	case s.Items != nil && s.Items.Properties != nil:
		for p := s.Items.Properties.Oldest(); p != nil; p = p.Next() {
			renderRows(b, path+"[]."+p.Key, p.Value, slices.Contains(s.Items.Required, p.Key))
		}
	}
}

func valueOf(s *jsonschema.Schema) string {
	if len(s.AnyOf) > 0 {
		s = s.AnyOf[0]
	}
	if len(s.Enum) > 0 {
		values := make([]string, len(s.Enum))
		for i, v := range s.Enum {
			values[i] = fmt.Sprintf("`%v`", v)
		}
		return strings.Join(values, ", ")
	}
	if name := map[string]string{
		"secret": "secret", "path": "file", "go-duration": "duration", "byte-size": "size",
	}[s.Format]; name != "" {
		return name
	}
	switch {
	case s.Ref != "":
		return "[part](#parts-of-an-event)"
	case s.Type == "string":
		return "text"
	case s.Type == "integer":
		return "whole number"
	case s.Type == "array" && s.Items.Ref != "":
		return "list of [named parts](#parts-of-an-event)"
	case s.Type == "array" && s.Items.Properties == nil:
		return "list of text"
	case s.Type == "array":
		return "list"
	case s.Type == "object" && s.Properties == nil:
		return "names and text"
	case s.Type == "object":
		return "section"
	default:
		return "true, false"
	}
}

func defaultOf(s *jsonschema.Schema, required bool) string {
	switch {
	case required:
		return "**required**"
	case s.Default != nil:
		return fmt.Sprintf("`%v`", s.Default)
	case s.Extras["x-default"] != nil:
		return fmt.Sprintf("`%v`", s.Extras["x-default"])
	default:
		return "none"
	}
}

const introduction = `<!-- Generated from the structs of internal/config: change their comments and run go generate ./internal/config. -->

# Configuration

The relay reads one YAML file: the one that ` + "`--config`" + ` names, else ` + "`CDC_RELAY_CONFIG`" + `, else
` + "`cdc-relay.yaml`" + ` in the working directory. The smallest one is this:

` + "```yaml" + `
source:
  postgres: {dsn: "${env:DATABASE_URL}"}
kafka:
  brokers: ["localhost:9092"]
` + "```" + `

and for MySQL and MariaDB, which store no position for a relay, this:

` + "```yaml" + `
source:
  mysql: {dsn: "${env:DATABASE_URL}"}
checkpoint:
  file: /var/lib/cdc-relay/position
kafka:
  brokers: ["localhost:9092"]
` + "```" + `

[deploy/cdc-relay.yaml](../deploy/cdc-relay.yaml) is an annotated example, and
[deploy/cdc-relay-mysql.yaml](../deploy/cdc-relay-mysql.yaml) has what differs on MySQL and MariaDB.

- ` + "`cdc-relay config validate`" + ` reports all errors of the file at once, with line, column and fix, and exits with 2. It warns of
  routes that can never match and of columns that the outbox table does not have.
- ` + "`cdc-relay route --row '{\"aggregate_type\": \"Order\", …}'`" + ` shows which route a row takes and the record that it becomes.
- ` + "`cdc-relay config show`" + ` prints what is in effect: defaults filled in, secrets as ` + "`***`" + `.
- ` + "`cdc-relay config schema`" + ` prints a JSON schema, for completion and checks in an editor.

The file is parsed strictly: unknown keys, duplicate keys and values of the wrong type are errors. So is a key without a
value; omit a key to get its default. YAML aliases, merge keys and tags are not supported.

## Values from the environment and from files

| written | value |
|---|---|
| ` + "`${env:NAME}`" + ` | the environment variable; it must be set |
| ` + "`${env:NAME:-default}`" + ` | the environment variable, or ` + "`default`" + ` where it is unset or empty |
| ` + "`${file:PATH}`" + ` | the content of the file, without one newline at its end |
| ` + "`$${env:`, `$${file:`" + ` | the text ` + "`${env:`, `${file:`" + ` itself |

They may be used in any value, but not in keys, alone or inside text: ` + "`\"${env:REGION}.example.com:9092\"`" + `. They are
expanded after the YAML was parsed, so a value cannot change the structure of the file, and values are not expanded
again. Other text that starts with a dollar sign is not changed: ` + "`${tenant_id}`" + ` in a route
belongs to the route.

Settings of the type *secret* never appear in logs, in errors or in ` + "`config show`" + `. A ` + "`${file:}`" + ` in them is read
again at every connect, so a rotated secret is used without a restart.

## Kinds of values

- *duration*: a number with a unit, ` + "`200ms`, `3s`, `1m30s`" + `; never zero.
- *size*: bytes, as a number or with a unit: ` + "`65536`, `64KiB`, `8MiB`, `1GiB`" + ` (` + "`KB`, `MB`, `GB`" + ` are powers of ten).
- *file*: a path; a relative path starts at the directory of the configuration file.
- *section*: a group of settings; it has no effect until it is present, even as ` + "`{}`" + `.

## Parts of an event

In ` + "`tables[].columns`" + ` each part of an event is one of these:

| written | the part is |
|---|---|
| ` + "`aggregate_id: order_id`" + ` | the column |
| ` + "`payload: {column: body, encoding: base64}`" + ` | the bytes behind base64 or hex in the column |
| ` + "`event_type: {const: OrderPlaced}`" + ` | the same for all rows |
| ` + "`partition_key: {template: \"${tenant}/${order_id}\"}`" + ` | a text with columns in it; NULL if one of them is NULL |
| ` + "`event_type: {json: metadata, path: \"$.event.type\"}`" + ` | a value in the document of a JSON column, which may be of a type of text |

A path is ` + "`$`, then members (`.name`, `[\"any name\"]`) and elements (`[0]`)" + `. A string is its text, a number, an object and an array are their
text in the document. If the path leads to nothing, or to null, the part is NULL. Of members with the same name the last one counts. A
document that is not JSON makes the row malformed. So does a ` + "`partition_key` or `aggregate_id`" + ` that is an object or an array: it may be written in several
ways, and a key is compared byte by byte. Without a path the part is the whole document.

Rows are looked for by ` + "`created_at`" + ` or [` + "`order_by`" + `](#tables), which are columns, and by the ID, which is one too, or a text with one column behind it:
` + "`event_id: {template: \"orders-${id}\"}`" + ` tells the numbers of a table from those of another. The event's ID is then ` + "`orders-17`" + ` in its record, in
` + "`errors.skip`" + ` and wherever a command takes one. Give each table a text of its own that does not end in a digit, and give it before the first run: with
another text the events of the table have other IDs, so that nothing tells which of them were published before.

A named part, in ` + "`tables[].headers` and `tables[].value`" + `, is one of these with a name: ` + "`{name: tenant, column: tenant_id}`" + `.
` + "`routes[].key` and `routes[].partition`" + ` are such parts, too.
`
