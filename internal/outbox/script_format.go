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
	// FormatLiquibase is a changelog in formatted SQL.
	FormatLiquibase Format = "liquibase"
	// FormatAlembic is a revision for Alembic, in Python.
	FormatAlembic Format = "alembic"
	// FormatDjango is a migration of a Django app, in Python.
	FormatDjango Format = "django"
	// FormatAtlas is a versioned migration for Atlas.
	FormatAtlas Format = "atlas"
	// FormatRails is a migration for Active Record, in Ruby.
	FormatRails Format = "rails"
)

// Formats returns all formats, the default first.
func Formats() []Format {
	return []Format{
		FormatPlain, FormatGoose, FormatGolangMigrate, FormatFlyway, FormatLiquibase, FormatAlembic, FormatDjango, FormatAtlas, FormatRails,
	}
}

// File is a script or one half of it.
type File struct{ Name, Text string }

// Files renders the script as one file, for golang-migrate as an up and a down file. at is the version by which migration
// tools order files.
func (s Script) Files(f Format, at time.Time) ([]File, error) {
	if !slices.Contains(Formats(), f) {
		return nil, cdc.Fixable("use "+oneOf(Formats()), "format %q is unknown", f)
	}
	if err := s.checkTemplates(f); err != nil {
		return nil, err
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
	case FormatLiquibase:
		return []File{{base + ".sql", s.liquibase()}}, nil
	case FormatAlembic:
		return []File{{base + ".py", s.alembic(version)}}, nil
	case FormatDjango:
		return []File{{"0001_" + s.Name + ".py", s.django()}}, nil
	case FormatAtlas:
		return []File{{base + ".sql", s.atlas()}}, nil
	case FormatRails:
		return []File{{base + ".rb", s.rails()}}, nil
	default:
		return []File{{s.Name + ".sql", render(s.Up)}}, nil
	}
}

func oneOf(formats []Format) string {
	names := make([]string, len(formats))
	for i, f := range formats {
		names[i] = string(f)
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
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
