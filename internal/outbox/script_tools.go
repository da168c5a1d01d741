package outbox

import (
	"regexp"
	"slices"
	"strings"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// checkTemplates refuses a script with characters that a tool replaces, or that end its strings. Only the names of tables
// can bring them.
func (s Script) checkTemplates(f Format) error {
	if f == FormatPlain || f == FormatGoose || f == FormatGolangMigrate {
		return nil
	}
	parameter := regexp.MustCompile(`(^|[^:\w]):\w+([^:\w]|$)`) // of SQLAlchemy
	for _, statement := range slices.Concat(s.Up, s.Down) {
		for _, special := range []string{`\`, "${", `"""`, "//", parameter.FindString(statement.SQL)} {
			if special != "" && strings.Contains(statement.SQL, special) {
				return cdc.Fixable("choose another table name, or another format", "format %s would change %q in the SQL", f, strings.TrimSpace(special))
			}
		}
	}
	return nil
}

// liquibase ends statements with slashes: Liquibase splits files at semicolons, also within quoted bodies.
func (s Script) liquibase() string {
	const end = "\n//\n"
	var b strings.Builder
	b.WriteString("--liquibase formatted sql\n\n--changeset cdc-relay:" + s.Name + " endDelimiter:// rollbackEndDelimiter:// stripComments:false\n")
	for i, statement := range s.Up {
		b.WriteString([2]string{"", "\n"}[min(i, 1)] + statement.comment("-- ") + statement.SQL + end)
	}
	b.WriteString("\n")
	for _, statement := range s.Down {
		b.WriteString(prefixLines("--rollback ", statement.SQL+end))
	}
	return b.String()
}

// atlas marks the end of each statement: Atlas splits files at semicolons, also within some quoted bodies.
func (s Script) atlas() string {
	const end = "-- end"
	var b strings.Builder
	b.WriteString("-- atlas:delimiter " + end + "\n-- Run `atlas migrate hash` after you have added this file.\n")
	for _, statement := range s.Up {
		b.WriteString("\n" + statement.comment("-- ") + statement.SQL + ";\n" + end + "\n")
	}
	return b.String()
}

func (s Script) alembic(version string) string {
	return `"""` + s.Name + `

Set down_revision to the revision that ` + "`alembic heads`" + ` prints, if there is one.
"""

from alembic import op

revision = "` + version + `"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
` + alembicText(s.Up) + `

def downgrade() -> None:
` + alembicText(s.Down)
}

func alembicText(statements []Statement) string {
	var b strings.Builder
	for _, s := range statements {
		b.WriteString(s.comment("    # ") + `    op.execute("""` + "\n" + s.SQL + "\n" + `""")` + "\n")
	}
	return b.String()
}

// django gives statements as a list: Django splits a single text at semicolons, and needs another package for it.
func (s Script) django() string {
	return `# In an app that has migrations: number this file after the last of them, and name that one in dependencies,
# as in [("shop", "0004_order_total")].
from django.db import migrations


class Migration(migrations.Migration):
    dependencies = []

    operations = [
        migrations.RunSQL(
            sql=[
` + djangoText(s.Up) + `            ],
            reverse_sql=[
` + djangoText(s.Down) + `            ],
        ),
    ]
`
}

func djangoText(statements []Statement) string {
	var b strings.Builder
	for _, s := range statements {
		b.WriteString(s.comment("                # ") + `                """` + "\n" + s.SQL + "\n" + `""",` + "\n")
	}
	return b.String()
}

func (s Script) rails() string {
	var class strings.Builder
	for word := range strings.FieldsFuncSeq(s.Name, func(r rune) bool { return r == '_' || r == '-' }) {
		class.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return `# No test runs this migration with Rails. Set config.active_record.schema_format = :sql: schema.rb has no partitions.
class ` + class.String() + ` < ActiveRecord::Migration[7.0]
  def up
` + railsText(s.Up) + `  end

  def down
` + railsText(s.Down) + `  end
end
`
}

func railsText(statements []Statement) string {
	var b strings.Builder
	for _, s := range statements {
		b.WriteString(s.comment("    # ") + "    execute <<'SQL'\n" + s.SQL + "\nSQL\n")
	}
	return b.String()
}

// comment returns the statement's comment with a mark before each line.
func (s Statement) comment(mark string) string {
	if s.Comment == "" {
		return ""
	}
	return prefixLines(mark, s.Comment+"\n")
}

func prefixLines(prefix, text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(prefix + line)
	}
	return b.String()
}
