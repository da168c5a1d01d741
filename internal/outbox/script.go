package outbox

import (
	"fmt"
	"strings"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Statement is one SQL statement.
type Statement struct {
	// Comment explains the statement, without comment marks; may be "".
	Comment string
	// SQL without the closing semicolon.
	SQL string
}

// Script creates something in a database, and drops it.
type Script struct {
	// Name is part of file names: "create_outbox".
	Name string
	// Up can be repeated, also after a part of it failed.
	Up []Statement
	// Down undoes Up.
	Down []Statement
}

// Format is the file format of a script.
type Format string

// The formats.
const (
	// FormatPlain is for psql.
	FormatPlain Format = "plain"
	// FormatGoose is a migration for pressly/goose.
	FormatGoose Format = "goose"
	// FormatGolangMigrate is a pair of migrations for golang-migrate/migrate.
	FormatGolangMigrate Format = "golang-migrate"
)

// File is a script or one half of it.
type File struct{ Name, Text string }

// Files renders the script as one file, for golang-migrate as an up and a down file. at is the version by which migration
// tools order files.
func (s Script) Files(f Format, at time.Time) ([]File, error) {
	base := at.UTC().Format("20060102150405") + "_" + s.Name
	switch f {
	case FormatPlain:
		return []File{{s.Name + ".sql", render(s.Up)}}, nil
	case FormatGoose:
		return []File{{base + ".sql", "-- +goose Up\n" + gooseText(s.Up) + "\n-- +goose Down\n" + gooseText(s.Down)}}, nil
	case FormatGolangMigrate:
		return []File{{base + ".up.sql", render(s.Up)}, {base + ".down.sql", render(s.Down)}}, nil
	default:
		return nil, cdc.Fixable(fmt.Sprintf("use %s, %s or %s", FormatPlain, FormatGoose, FormatGolangMigrate), "format %q is unknown", f)
	}
}

// render returns statements for psql, separated by blank lines.
func render(statements []Statement) string {
	texts := make([]string, len(statements))
	for i, s := range statements {
		texts[i] = s.String()
	}
	return strings.Join(texts, "\n")
}

// String returns the statement with its comment and a semicolon.
func (s Statement) String() string {
	var b strings.Builder
	if s.Comment != "" {
		for line := range strings.Lines(s.Comment) {
			b.WriteString("-- " + line)
		}
		b.WriteString("\n")
	}
	if strings.HasPrefix(s.SQL, "CREATE PROCEDURE ") { // the client mysql splits statements at semicolons
		return b.String() + "DELIMITER //\n" + s.SQL + "//\nDELIMITER ;\n"
	}
	b.WriteString(s.SQL + ";\n")
	return b.String()
}

// gooseText marks the statements that contain semicolons, because goose splits files at them.
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
