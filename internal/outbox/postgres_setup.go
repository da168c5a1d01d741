package outbox

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Runner is the role that has the rights to run a step.
type Runner string

// The runners.
const (
	// RunnerAdmin is a superuser, or the administrator of a managed service.
	RunnerAdmin Runner = "an administrator"
	// RunnerOwner owns the table and has CREATE on the database.
	RunnerOwner Runner = "the owner of the table, with CREATE on the database"
	// RunnerRelay is the role that the relay connects as, which has REPLICATION.
	RunnerRelay Runner = "the relay's role, with REPLICATION"
)

// Step is a list of statements that one runner runs in one transaction.
type Step struct {
	Runner     Runner
	Statements []Statement
}

// Steps are run in order.
type Steps []Step

// String renders the steps for people, each under the role that must run it.
func (s Steps) String() string {
	var b strings.Builder
	for i, step := range s {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "-- To be run by %s.\n\n%s", step.Runner, render(step.Statements))
	}
	return b.String()
}

// SetupOptions are what the relay needs in a database.
type SetupOptions struct {
	// Make lists the tables to create.
	Make []TableOptions
	// Read lists the tables that the relay reads, at least one.
	Read []Name
	// Maintain lists the tables whose partitions the relay maintains. They are made, or exist.
	Maintain []Name
	// Delete lists the tables whose old rows the relay deletes.
	Delete []Name
	// Mark lists the columns that the relay sets in rows that are published.
	Mark []Columns
	// Role is the relay's role; on MySQL and MariaDB its user, "relay" (from any host) or "relay@10.0.%". Without it no rights are granted.
	Role string

	// Publication and Slot are the names of those on PostgreSQL.
	Publication, Slot string
	// Failover creates a failover slot, which standbys synchronize. PostgreSQL 17 and newer only.
	Failover bool

	// Flavor is the kind of MySQL server; "" is cdc.MySQL.
	Flavor cdc.Flavor
	// Settings change those of a MySQL or MariaDB server.
	Settings []Statement
}

// Columns are some of a table's.
type Columns struct {
	Table Name
	Names []string
}

func (c *Columns) list(quote func(string) string) string {
	quoted := make([]string, len(c.Names))
	for i, name := range c.Names {
		quoted[i] = quote(name)
	}
	return strings.Join(quoted, ", ")
}

// PostgresSetup returns the steps that prepare a PostgreSQL database for the relay: rights, tables, publication, and then
// the slot, which must be created after the publication. They can be repeated.
func PostgresSetup(o SetupOptions) Steps {
	owner := Step{Runner: RunnerOwner}
	for _, t := range o.Make {
		owner.Statements = append(owner.Statements, PostgresTable(t).Up...)
	}
	for _, t := range o.Maintain {
		if !slices.ContainsFunc(o.Make, func(m TableOptions) bool { return m.Name == t }) {
			owner.Statements = append(owner.Statements, Statement{SQL: "CREATE SCHEMA IF NOT EXISTS " + PartitionSchema})
			owner.Statements = append(owner.Statements, postgresMaintenance(t)...)
		}
	}
	owner.Statements = append(owner.Statements, postgresPublication(o.Publication, o.Read))
	relay := Step{RunnerRelay, []Statement{PostgresSlot(o.Slot, o.Failover)}}
	if o.Role == "" {
		return Steps{owner, relay}
	}
	admin := Step{RunnerAdmin, []Statement{{
		Comment: "If the role does not exist: CREATE ROLE " + Quote(o.Role) + " LOGIN PASSWORD '...'.\n" +
			"Managed services have a role to grant instead: GRANT rds_replication TO ... on Amazon RDS.",
		SQL: "ALTER ROLE " + Quote(o.Role) + " WITH REPLICATION",
	}}}
	owner.Statements = append(owner.Statements, grants(&o)...)
	return Steps{admin, owner, relay}
}

// grants let the relay's role read the tables, to fill a gap. Reading the WAL needs no rights on them.
func grants(o *SetupOptions) []Statement {
	var statements []Statement
	granted := make(map[string]bool)
	for _, t := range o.Read {
		if !granted[t.Schema] {
			granted[t.Schema] = true
			statements = append(statements, Statement{SQL: "GRANT USAGE ON SCHEMA " + Quote(t.Schema) + " TO " + Quote(o.Role)})
		}
		statements = append(statements, Statement{SQL: "GRANT SELECT ON TABLE " + t.SQL() + " TO " + Quote(o.Role)})
	}
	for _, t := range o.Delete {
		statements = append(statements, Statement{SQL: "GRANT DELETE ON TABLE " + t.SQL() + " TO " + Quote(o.Role)})
	}
	for _, c := range o.Mark {
		statements = append(statements, Statement{SQL: "GRANT UPDATE (" + c.list(Quote) + ") ON TABLE " + c.Table.SQL() + " TO " + Quote(o.Role)})
	}
	for _, t := range o.Maintain {
		statements = append(statements, grantMaintenance(t, o.Role)...)
	}
	return statements
}

// postgresPublication returns the statement that creates the publication, or adds missing tables to it. It publishes
// inserts only, and those into partitions under the name of the partitioned table.
func postgresPublication(name string, tables []Name) Statement {
	list := make([]string, len(tables))
	var b strings.Builder
	for i, t := range tables {
		list[i] = t.SQL()
		fmt.Fprintf(&b, `  IF NOT EXISTS (SELECT FROM pg_publication_rel JOIN pg_publication p ON p.oid = prpubid
      WHERE pubname = %s AND prrelid = %s::regclass) THEN
    ALTER PUBLICATION %s ADD TABLE %s;
  END IF;
`, literal(name), literal(t.SQL()), Quote(name), t.SQL())
	}
	return Statement{SQL: block(fmt.Sprintf(`BEGIN
  IF NOT EXISTS (SELECT FROM pg_publication WHERE pubname = %s) THEN
    CREATE PUBLICATION %s FOR TABLE %s
      WITH (publish = 'insert', publish_via_partition_root = true);
  END IF;
%sEND`, literal(name), Quote(name), strings.Join(list, ", "), b.String()))}
}

// PostgresSlot returns the statement that creates the replication slot if it does not exist. It must not run in a
// transaction that has written.
func PostgresSlot(name string, failover bool) Statement {
	more := ""
	if failover {
		more = ", failover => true"
	}
	return Statement{
		Comment: "From here on PostgreSQL keeps WAL until the relay has read it.\n" +
			"In a transaction of its own, once the publication is committed.",
		SQL: fmt.Sprintf("SELECT pg_create_logical_replication_slot(%s, 'pgoutput'%s)\n"+
			"WHERE NOT EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = %s)", literal(name), more, literal(name)),
	}
}

// PostgresTeardown returns the steps that drop the relay's objects, first the slot, because an unused slot fills the
// disk. They can be repeated. drop lists tables to drop with all their events.
func PostgresTeardown(publication, slot string, drop []Name) Steps {
	relay := Step{RunnerRelay, []Statement{{SQL: "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots\n" +
		"WHERE slot_name = " + literal(slot) + " AND database = current_database()"}}}
	owner := Step{RunnerOwner, []Statement{{SQL: "DROP PUBLICATION IF EXISTS " + Quote(publication)}}}
	for _, t := range drop {
		owner.Statements = append(owner.Statements, Statement{SQL: "DROP TABLE IF EXISTS " + t.SQL()}, dropTakenOut(t))
		owner.Statements = append(owner.Statements, dropMaintenance(t)...)
	}
	if len(drop) > 0 {
		owner.Statements = append(owner.Statements, dropPartitionSchema())
	}
	return Steps{relay, owner}
}

// dropTakenOut drops what was taken out of a table.
func dropTakenOut(table Name) Statement {
	return Statement{SQL: block(fmt.Sprintf(`DECLARE
  part regclass;
BEGIN
  FOR part IN
%s
  LOOP
    EXECUTE format('DROP TABLE %%s', part);
  END LOOP;
END`, fmt.Sprintf(takenOut, literal(takenOutOf(table)))))}
}
