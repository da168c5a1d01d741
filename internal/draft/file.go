package draft

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/cdc-relay/cdc-relay/internal/display"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
)

// File is a configuration.
type File struct {
	// MySQL is whether the source is MySQL or MariaDB.
	MySQL bool
	// DSN is a connection string without its password. Variable is one of the environment that holds the relay's, in place of DSN.
	DSN, Variable, Database string
	// Password is whether DSN lacks one.
	Password bool
	Tables   []Table
}

// EnvPassword is the variable in which the configuration expects a password.
const EnvPassword = "RELAY_PASSWORD"

// YAML returns the file's text. It holds no secret.
func (f *File) YAML() string {
	var b strings.Builder
	b.WriteString(`# Written by cdc-relay init from the columns of the tables. Correct what the comments leave open, then:
#
#   cdc-relay config validate
#   cdc-relay setup
#   cdc-relay check
#   cdc-relay run --dry-run
#
# docs/configuration.md describes each setting.

`)
	f.source(&b)
	b.WriteString("\ntables:\n")
	for i := range f.Tables {
		f.Tables[i].write(&b)
	}
	f.routes(&b)
	b.WriteString(`
kafka:
  brokers: ["${env:KAFKA_BROKER:-localhost:9092}"]

# How missing topics are created. Another number of partitions later breaks the order of keys.
topics:
  create: {partitions: 8}
`)
	return b.String()
}

func (f *File) source(b *strings.Builder) {
	kind, rest := "postgres", ""
	if f.MySQL {
		kind, rest = "mysql", fmt.Sprintf(`    id: %s # a name for this database that no other relay on this Kafka has; keep it after a failover

# The position, of which this is the only copy. The file belongs on a persistent disk; Redis can take its place.
checkpoint:
  file: cdc-relay.position
`, plain(f.Database+"-1"))
	}
	dsn, what := quoted(f.DSN), "The connection that init used, whose user may do more than a relay needs."
	if f.Variable != "" {
		dsn, what = `"${env:`+f.Variable+`}"`, "The connection of "+f.Variable+"."
	}
	fmt.Fprintf(b, "source:\n  %s:\n    # %s For production give the relay a user of its own: cdc-relay setup --print shows its rights.\n", kind, what)
	fmt.Fprintf(b, "    dsn: %s\n", dsn)
	if f.Password {
		fmt.Fprintf(b, "    password: \"${env:%s}\" # set the variable: init writes no password\n", EnvPassword)
	}
	b.WriteString(rest)
}

// write writes the table. What a table has beside its parts goes before columns.
func (t *Table) write(b *strings.Builder) {
	fmt.Fprintf(b, "  - name: %s\n", plain(t.Name))
	if t.Native {
		b.WriteString("    # It has the columns of the table that cdc-relay setup creates, so they are not listed.\n")
		return
	}
	t.shape(b)
	b.WriteString("    columns:\n")
	lines := tabwriter.NewWriter(b, 0, 0, 1, ' ', 0)
	for i := range t.Parts {
		_, _ = fmt.Fprintf(lines, "      %s: %s\t# %s\n", t.Parts[i].Role, written(&t.Parts[i].Part), display.Escaped(t.Parts[i].Why))
	}
	_ = lines.Flush()
	if !t.has(outbox.AggregateID) && !t.has(outbox.PartitionKey) {
		b.WriteString("      # No column looks like a key, so that events have no order: name one in partition_key.\n")
	}
	if t.has(outbox.OccurredAt) || t.has(outbox.CreatedAt) {
		b.WriteString("      # occurred_at is when the event happened; created_at is when the row was written: rows are looked for by it, or else by occurred_at.\n")
	}
	for _, left := range []struct {
		columns []string
		what    string
	}{
		{t.State, "Left alone, the state of what published the rows before"},
		{t.Unused, "In no part"},
		{t.Generated, "Generated, so that the WAL does not have them"},
	} {
		if len(left.columns) > 0 {
			fmt.Fprintf(b, "      # %s: %s.\n", left.what, display.Escaped(strings.Join(left.columns, ", ")))
		}
	}
}

// shape writes what records are made of beside the parts.
func (t *Table) shape(b *strings.Builder) {
	if t.Debezium {
		b.WriteString("    # The table of Debezium's outbox event router, whose records these are: see docs/migrate-debezium.md for its options.\n" +
			"    format: plain\n    headers: [{name: id, column: id}]\n")
	}
	if t.Null {
		b.WriteString("    null_payload: tombstone # a row with NULL is a record without a value\n")
	}
}

// routes sends each row somewhere, also one whose topic or aggregate type is NULL.
func (f *File) routes(b *strings.Builder) {
	some := func(is func(*Table) bool) bool {
		return slices.ContainsFunc(f.Tables, func(t Table) bool { return is(&t) })
	}
	b.WriteString("\n")
	if some(func(t *Table) bool { return t.has(outbox.Topic) }) {
		b.WriteString("# For rows whose topic is NULL. The first route that matches decides.\n")
	} else {
		b.WriteString("# The first route that matches decides.\n")
	}
	b.WriteString("routes:\n")
	const byType = "topic: \"outbox.event.${aggregate_type}\""
	if !some(func(t *Table) bool { return !t.Native }) {
		b.WriteString("  - " + byType + "\n")
		return
	}
	if some(func(t *Table) bool { return t.has(outbox.AggregateType) }) {
		b.WriteString("  - match: {aggregate_type: \".+\"}\n    " + byType + " # as Debezium's outbox event router does\n")
	}
	for i := range f.Tables {
		if t := &f.Tables[i]; topicName(t.bare) != t.bare {
			fmt.Fprintf(b, "  - match: {table: %s}\n    topic: %s # without what a topic's name cannot have\n",
				quoted(regexp.QuoteMeta(t.bare)), quoted("outbox.event."+topicName(t.bare)))
		}
	}
	b.WriteString("  - topic: \"outbox.event.${table}\"\n")
}

// topicName is a table's name with an underscore for each character that a topic cannot have.
func topicName(table string) string {
	return regexp.MustCompile(`[^A-Za-z0-9._-]`).ReplaceAllString(table, "_")
}

// written is a part in YAML.
func written(p *outbox.Part) string {
	switch {
	case p.JSON != "":
		return fmt.Sprintf("{json: %s, path: %s}", plain(p.JSON), quoted(p.Path))
	case p.Template != "":
		return fmt.Sprintf("{template: %s}", quoted(p.Template))
	case p.Const != "":
		return fmt.Sprintf("{const: %s}", quoted(p.Const))
	default:
		return plain(p.Column)
	}
}

// plain writes a name without quotes if YAML takes it for text in any version.
func plain(name string) string {
	if regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.]*$`).MatchString(name) &&
		!regexp.MustCompile(`^(?i:true|false|yes|no|on|off|y|n|null)$`).MatchString(name) {
		return name
	}
	return quoted(name)
}

// quoted writes a text in double quotes, as JSON does, which is YAML. What looks like a reference stays text.
func quoted(text string) string {
	text = strings.NewReplacer("${env:", "$${env:", "${file:", "$${file:").Replace(text)
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(text) // a string can be encoded
	return strings.TrimSpace(b.String())
}
