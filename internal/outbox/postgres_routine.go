package outbox

import "fmt"

// PostgresRoutine returns the name of the function that maintains a table's daily partitions.
func PostgresRoutine(table Name) Name {
	return Name{Schema: partitionSchema, Table: partitionPrefix(table, len("maintain")) + "maintain"}
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
	return fmt.Sprintf(routineBody,
		literal(table.SQL()), literal(partitionSchema+"."), literal(partitionPrefix(table, len("20060102"))),
		literal(partitionPrefix(table, len("default_20060102030405"))), literal(takenOutOf(table)), literal(age))
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
    WHERE relnamespace = to_regnamespace('` + partitionSchema + `') AND relkind = 'r' AND NOT relispartition AND starts_with(description, %s) ORDER BY 1`

// PostgresTakenOut returns a query for the names of the tables that were partitions of a table and were taken out.
func PostgresTakenOut(table Name) string {
	return "SELECT c.oid::text FROM (" + fmt.Sprintf(takenOut, literal(takenOutOf(table))) + ") AS c (oid)"
}

// PostgresUnique returns a query for the unique indexes of a column; in a partitioned table also those that hold more columns, as they must.
func PostgresUnique(table Name, column string) string {
	return `SELECT i.indexrelid::regclass::text FROM pg_class c JOIN pg_index i ON i.indrelid = c.oid JOIN pg_attribute a ON a.attrelid = c.oid
		WHERE c.oid = to_regclass(` + literal(table.SQL()) + `) AND a.attname = ` + literal(column) + ` AND i.indisunique AND i.indpred IS NULL
		AND (i.indnkeyatts = 1 AND i.indkey[0] = a.attnum OR c.relkind = 'p' AND a.attnum = ANY (i.indkey))`
}

// routineBody is PL/pgSQL. A partition that is taken out gets a comment with the end of its rows, a WAL position behind all of
// them, and the transaction that wrote the comment, which a dump does not restore. The lock on the partition is held by then, so
// that every transaction that wrote to it has ended. Behind the table's lock, for which writers wait, nothing is waited for
// (NOWAIT). To swap is to make a day although the default partition has rows, which are taken out with it.
//
// What exists is found by the table that it belongs to, or by its comment, and not by its name: partitions of earlier versions have
// other names, which two tables could share. The end in the comment tells the age of what is dropped: that of the default
// partition is when it was taken out, since it may hold rows of any time.
const routineBody = `DECLARE
  outbox CONSTANT text := %s;
  taken CONSTANT text := %[5]s;
  since CONSTANT timestamptz := date_trunc('day', at);
  until CONSTANT timestamptz := since + interval '24 hours';
  day CONSTANT text := %[2]s || quote_ident(%[3]s || to_char(at, 'YYYYMMDD'));
  rest CONSTANT text := (SELECT format('%%I.%%I', nspname, relname) FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid JOIN pg_namespace n ON n.oid = relnamespace
    WHERE inhparent = outbox::regclass AND nspname || '.' = %[2]s AND pg_get_expr(relpartbound, c.oid) = 'DEFAULT');
  fresh CONSTANT text := %[2]s || quote_ident(%[3]s || 'new');
  moment CONSTANT timestamptz := date_trunc('second', clock_timestamp());
  part text;
  ended timestamptz;
  n bigint := 0;
BEGIN
  IF action IN ('make', 'swap') THEN
    EXECUTE format('CREATE TABLE %%s (LIKE %%s INCLUDING ALL EXCLUDING IDENTITY)', day, outbox);
    EXECUTE format('ALTER TABLE %%s ADD CONSTRAINT bound CHECK (created_at >= %%L AND created_at < %%L)', day, since, until);
    IF action = 'swap' THEN
      IF rest IS NULL THEN
        RAISE EXCEPTION '%% has no default partition of cdc-relay', outbox;
      END IF;
      EXECUTE format('CREATE TABLE %%s (LIKE %%s INCLUDING ALL EXCLUDING IDENTITY)', fresh, outbox);
      EXECUTE format('LOCK TABLE ONLY %%s IN ACCESS EXCLUSIVE MODE', outbox);
      EXECUTE format('LOCK TABLE %%s IN ACCESS EXCLUSIVE MODE NOWAIT', rest);
      EXECUTE format('ALTER TABLE %%s DETACH PARTITION %%s', outbox, rest);
      EXECUTE format('COMMENT ON TABLE %%s IS %%L', rest, format('%%s%%s, WAL %%s, transaction %%s', taken, moment, pg_current_wal_insert_lsn(), pg_current_xact_id()::xid));
      EXECUTE format('ALTER TABLE %%s RENAME TO %%I', rest, %[4]s || 'default_' || to_char(moment, 'YYYYMMDDHH24MISS'));
      EXECUTE format('ALTER TABLE %%s RENAME TO %%I', fresh, %[3]s || 'default');
    END IF;
    EXECUTE format('ALTER TABLE %%s ATTACH PARTITION %%s FOR VALUES FROM (%%L) TO (%%L)', outbox, day, since, until);
    EXECUTE format('ALTER TABLE %%s DROP CONSTRAINT bound', day);
    IF action = 'swap' THEN
      EXECUTE format('ALTER TABLE %%s ATTACH PARTITION %%s DEFAULT', outbox, %[2]s || quote_ident(%[3]s || 'default'));
    END IF;
  ELSIF action = 'take_out' THEN
    part := (SELECT format('%%I.%%I', nspname, relname) FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid JOIN pg_namespace n ON n.oid = relnamespace
      WHERE inhparent = outbox::regclass AND nspname || '.' = %[2]s AND right(relname, 9) = to_char(at, '_YYYYMMDD')
      AND pg_get_expr(relpartbound, c.oid) = format('FOR VALUES FROM (%%L) TO (%%L)', since, until));
    IF until > now() OR part IS NULL THEN
      RAISE EXCEPTION '%% has no partition for %%, or that day has not ended', outbox, since;
    END IF;
    EXECUTE format('LOCK TABLE ONLY %%s IN ACCESS EXCLUSIVE MODE', outbox);
    EXECUTE format('LOCK TABLE %%s IN ACCESS EXCLUSIVE MODE NOWAIT', concat_ws(', ', part, rest));
    EXECUTE format('ALTER TABLE %%s DETACH PARTITION %%s', outbox, part);
    EXECUTE format('COMMENT ON TABLE %%s IS %%L', part, format('%%s%%s, WAL %%s, transaction %%s', taken, until, pg_current_wal_insert_lsn(), pg_current_xact_id()::xid));
  ELSIF action IN ('drop', 'drop_default') THEN
    SELECT format('%%I.%%I', nspname, relname), split_part(substr(description, length(taken) + 1), ',', 1)::timestamptz INTO part, ended
      FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace JOIN pg_description ON objoid = c.oid AND classoid = 'pg_class'::regclass AND objsubid = 0
      WHERE nspname || '.' = %[2]s AND relkind = 'r' AND NOT relispartition AND starts_with(description, taken)
      AND relname ~ (CASE action WHEN 'drop' THEN to_char(at, '_YYYYMMDD') ELSE to_char(at, '"_default_"YYYYMMDDHH24MISS') END || '$');
    IF part IS NULL THEN
      RAISE EXCEPTION 'no table of that time was taken out of %%', outbox;
    ELSIF ended + interval %[6]s > now() THEN
      RAISE EXCEPTION USING ERRCODE = 'object_in_use', MESSAGE = format('%%s was a part of %%s until %%s', part, outbox, ended);
    END IF;
    EXECUTE format('DROP TABLE %%s', part);
  ELSIF action = 'default_rows' THEN
    IF rest IS NOT NULL THEN
      EXECUTE format('SELECT count(*) FROM (SELECT FROM %%s LIMIT 100000) AS counted', rest) INTO n;
    END IF;
  ELSE
    RAISE EXCEPTION 'unknown action %%', action;
  END IF;
  RETURN n;
END`

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
END`, literal(table.SQL()), partitionSchema, literal("ALTER FUNCTION "+signature+" OWNER TO ")))},
	}
}

// grantMaintenance lets a role maintain a table's partitions, through the function only.
func grantMaintenance(table Name, role string) []Statement {
	return []Statement{
		{SQL: "GRANT USAGE ON SCHEMA " + partitionSchema + " TO " + Quote(role)},
		{SQL: "GRANT EXECUTE ON FUNCTION " + PostgresRoutine(table).SQL() + "(text, timestamp) TO " + Quote(role)},
	}
}
