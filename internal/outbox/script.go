package outbox

import (
	"fmt"
	"strings"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Statement is one SQL statement.
type Statement struct {
	// Comment says what it is for, in lines without comment marks; "" when the SQL says it.
	Comment string
	// SQL without the closing semicolon.
	SQL string
}

// Script makes something in a database, and unmakes it.
type Script struct {
	// Name names files: "create_outbox".
	Name string
	// Up is safe to run again where all of it or a part is there already.
	Up []Statement
	// Down undoes Up.
	Down []Statement
}

// Format is how a script is written down.
type Format string

// The formats.
const (
	// FormatPlain is what psql reads.
	FormatPlain Format = "plain"
	// FormatGoose is a migration for pressly/goose.
	FormatGoose Format = "goose"
	// FormatGolangMigrate is a pair of migrations for golang-migrate/migrate.
	FormatGolangMigrate Format = "golang-migrate"
)

// File is a script, or a half of one, as a file.
type File struct{ Name, Text string }

// Files renders the script: one file, or for golang-migrate the up and the down file. at is the version
// that migration tools order their files by.
func (s Script) Files(f Format, at time.Time) ([]File, error) {
	base := at.UTC().Format("20060102150405") + "_" + s.Name
	switch f {
	case FormatPlain:
		return []File{{s.Name + ".sql", Text(s.Up)}}, nil
	case FormatGoose:
		return []File{{base + ".sql", "-- +goose Up\n" + gooseText(s.Up) + "\n-- +goose Down\n" + gooseText(s.Down)}}, nil
	case FormatGolangMigrate:
		return []File{{base + ".up.sql", Text(s.Up)}, {base + ".down.sql", Text(s.Down)}}, nil
	default:
		return nil, cdc.Fixable(fmt.Sprintf("use %s, %s or %s", FormatPlain, FormatGoose, FormatGolangMigrate), "format %q is unknown", f)
	}
}

// Text renders statements as psql reads them, with a blank line between them.
func Text(statements []Statement) string {
	texts := make([]string, len(statements))
	for i, s := range statements {
		texts[i] = s.String()
	}
	return strings.Join(texts, "\n")
}

// String renders the statement with its comment and semicolon.
func (s Statement) String() string {
	var b strings.Builder
	if s.Comment != "" {
		for line := range strings.Lines(s.Comment) {
			b.WriteString("-- " + line)
		}
		b.WriteString("\n")
	}
	b.WriteString(s.SQL + ";\n")
	return b.String()
}

// gooseText marks the statements that hold semicolons, because goose splits a file at them.
func gooseText(statements []Statement) string {
	texts := make([]string, len(statements))
	for i, s := range statements {
		texts[i] = s.String()
		if strings.Contains(s.SQL, ";") {
			texts[i] = "-- +goose StatementBegin\n" + texts[i] + "-- +goose StatementEnd\n"
		}
	}
	return strings.Join(texts, "\n")
}
