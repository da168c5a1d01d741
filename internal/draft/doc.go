// Package draft proposes the configuration of outbox tables from what the catalog says of their columns, with the reason for each line. It
// is pure: [Of] is given a table's columns, and [File.YAML] returns the text.
package draft
