package outbox

import (
	_ "embed" // the routine
	"fmt"
	"strings"
)

// PostgresRoutine returns the name of the function that maintains a table's daily partitions.
func PostgresRoutine(table Name) Name {
	return Name{Schema: PartitionSchema, Table: partitionPrefix(table, len("maintain")) + "maintain"}
}

// TemporaryRoutine is the name of a function that ends with its session, for an owner who wants none in the database.
func TemporaryRoutine(table Name) Name {
	return Name{Schema: "pg_temp", Table: PostgresRoutine(table).Table}
}

// PostgresRoutineBody returns the function's text as PostgreSQL stores it.
func PostgresRoutineBody(table Name) string {
	return "\n" + routineText(table, youngest) + "\n"
}

// youngest is the age below which the relay's role removes nothing: the least that retention.keep may be.
const youngest = "24 hours"

func routineText(table Name, age string) string {
	return strings.NewReplacer(
		"{outbox}", literal(table.SQL()), "{schema}", literal(PartitionSchema+"."), "{prefix}", literal(partitionPrefix(table, len("20060102"))),
		"{prefix_default}", literal(partitionPrefix(table, len("default_20060102030405"))), "{taken}", literal(takenOutOf(table)), "{age}", literal(age),
	).Replace(strings.TrimSuffix(postgresRoutine, "\n"))
}

// PostgresMaintenance returns the statement that creates the function that maintains a table's daily partitions. It runs
// with the rights of the table's owner, so that the relay's role needs none: it takes an action and a time, computes every
// name itself, and touches only partitions of this table and what it took out of it. It drops nothing that was a part of the table
// within the last 24 hours, unless it is temporary: its caller is the owner then. Each call is one transaction, and waits for no
// lock longer than 20 ms.
func PostgresMaintenance(table, routine Name) Statement {
	age := youngest
	if routine == TemporaryRoutine(table) {
		age = "0"
	}
	return Statement{
		Comment: "Maintains the partitions of " + table.String() + " for a role that has no rights on it. Nobody but the owner may\n" +
			"call it until it is granted.",
		SQL: "CREATE OR REPLACE FUNCTION " + routine.SQL() + dollar(routineText(table, age), "(action text, at timestamp) RETURNS bigint\nLANGUAGE plpgsql SECURITY DEFINER\n"+
			"SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' SET datestyle = 'ISO' SET lock_timeout = '20ms' AS "),
	}
}

// takenOutOf is how the comment of a table begins that was a partition.
func takenOutOf(table Name) string { return "cdc-relay: taken out of " + table.String() + ", until " }

// takenOut is a query for the tables whose comment begins so.
const takenOut = `    SELECT c.oid::regclass FROM pg_class c JOIN pg_description ON objoid = c.oid AND classoid = 'pg_class'::regclass AND objsubid = 0
    WHERE relnamespace = to_regnamespace('` + PartitionSchema + `') AND relkind = 'r' AND NOT relispartition AND starts_with(description, %s) ORDER BY 1`

// PostgresTakenOut returns a query for the names of the tables that were partitions of a table and were taken out.
func PostgresTakenOut(table Name) string {
	return "SELECT c.oid::text FROM (" + fmt.Sprintf(takenOut, literal(takenOutOf(table))) + ") AS c (oid)"
}

// postgresRoutine is PL/pgSQL. A partition that is taken out gets a comment with the end of its rows, a WAL position behind all of
// them, and the transaction that wrote the comment, which a dump does not restore. The lock on the partition is held by then, so
// that every transaction that wrote to it has ended. Behind the table's lock, for which writers wait, nothing is waited for
// (NOWAIT). To swap is to make a day although the default partition has rows, which are taken out with it.
//
// What exists is found by the table that it belongs to, or by its comment, and not by its name: partitions of earlier versions have
// other names, which two tables could share. The end in the comment tells the age of what is dropped: that of the default
// partition is when it was taken out, since it may hold rows of any time.
//
//go:embed postgres_routine.sql
var postgresRoutine string

// postgresMaintenance returns the statements that create the function with the rights of the table's owner only, also where
// an administrator runs them.
func postgresMaintenance(table Name) []Statement {
	routine := PostgresRoutine(table)
	signature := routine.SQL() + "(text, timestamp)"
	return []Statement{
		PostgresMaintenance(table, routine),
		{SQL: "REVOKE ALL ON FUNCTION " + signature + " FROM PUBLIC"},
		{SQL: block(fmt.Sprintf(`DECLARE
  owner text := (SELECT quote_ident(pg_get_userbyid(relowner)) FROM pg_class WHERE oid = %s::regclass);
BEGIN
  IF owner <> quote_ident(current_user) THEN
    EXECUTE 'GRANT USAGE, CREATE ON SCHEMA %s TO ' || owner;
    EXECUTE %s || owner;
  END IF;
END`, literal(table.SQL()), PartitionSchema, literal("ALTER FUNCTION "+signature+" OWNER TO ")))},
	}
}

// grantMaintenance lets a role maintain a table's partitions, through the function only.
func grantMaintenance(table Name, role string) []Statement {
	return []Statement{
		{SQL: "GRANT USAGE ON SCHEMA " + PartitionSchema + " TO " + Quote(role)},
		{SQL: "GRANT EXECUTE ON FUNCTION " + PostgresRoutine(table).SQL() + "(text, timestamp) TO " + Quote(role)},
	}
}
