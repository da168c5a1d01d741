package outbox

import (
	"slices"
	"strings"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Format is the file format of a script.
type Format string

// The formats.
const (
	// FormatPlain is for psql and mysql.
	FormatPlain Format = "plain"
	// FormatGoose is a migration for pressly/goose.
	FormatGoose Format = "goose"
	// FormatGolangMigrate is a pair of migrations for golang-migrate/migrate.
	FormatGolangMigrate Format = "golang-migrate"
	// FormatFlyway is a versioned migration. Undo migrations are not part of the free edition.
	FormatFlyway Format = "flyway"
	// FormatAtlas is a versioned migration for Atlas.
	FormatAtlas Format = "atlas"
)

// Formats returns all formats, the default first.
func Formats() []Format {
	return []Format{FormatPlain, FormatGoose, FormatGolangMigrate, FormatFlyway, FormatAtlas}
}

// File is a script or one half of it.
type File struct{ Name, Text string }

// Files renders the script as one file, for golang-migrate as an up and a down file. at is the version by which migration
// tools order files.
func (s Script) Files(f Format, at time.Time) ([]File, error) {
	const placeholder = "${" // only the names of tables can bring it
	if f == FormatFlyway && strings.Contains(render(slices.Concat(s.Up, s.Down)), placeholder) {
		return nil, cdc.Fixable("choose another table name, or another format", "format %s would change %q in the SQL", f, placeholder)
	}
	version := at.UTC().Format("20060102150405")
	base := version + "_" + s.Name
	switch f {
	case FormatGoose:
		return []File{{base + ".sql", "-- +goose Up\n" + gooseText(s.Up) + "\n-- +goose Down\n" + gooseText(s.Down)}}, nil
	case FormatGolangMigrate:
		return []File{{base + ".up.sql", render(s.Up)}, {base + ".down.sql", render(s.Down)}}, nil
	case FormatFlyway:
		return []File{{"V" + version + "__" + s.Name + ".sql", render(s.Up)}}, nil
	case FormatAtlas:
		return []File{{base + ".sql", s.atlas()}}, nil
	default:
		return []File{{s.Name + ".sql", render(s.Up)}}, nil
	}
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

// atlas marks the end of each statement: Atlas splits files at semicolons, also within some quoted bodies.
func (s Script) atlas() string {
	const end = "-- end"
	var b strings.Builder
	b.WriteString("-- atlas:delimiter " + end + "\n-- Run `atlas migrate hash` after you have added this file.\n")
	for _, statement := range s.Up {
		b.WriteString("\n" + statement.comment() + statement.SQL + ";\n" + end + "\n")
	}
	return b.String()
}

// comment returns the statement's comment with a mark before each line.
func (s Statement) comment() string {
	var b strings.Builder
	for line := range strings.Lines(s.Comment) {
		b.WriteString("-- " + strings.TrimSuffix(line, "\n") + "\n")
	}
	return b.String()
}
