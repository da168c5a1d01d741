package commands

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// What docs/threat-model.md says that a stolen password of the relay can do in PostgreSQL, and what it cannot.
func TestStolenPasswordOfPostgres(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	role, ctx := s.name, t.Context()
	s.sql("CREATE TABLE secrets (id int PRIMARY KEY, text text)", "CREATE ROLE "+role+" LOGIN REPLICATION").setup()
	t.Cleanup(func() {
		_ = postgres.Exec(context.WithoutCancel(t.Context()), s.name, "DROP OWNED BY "+role)
		_ = postgres.Exec(context.WithoutCancel(t.Context()), s.name, "DROP ROLE "+role)
	})
	s.sql("GRANT SELECT ON outbox TO "+role, "CREATE PUBLICATION others FOR TABLE secrets",
		"SELECT pg_create_logical_replication_slot('"+role+"_others', 'pgoutput')")
	conn, err := pgx.Connect(ctx, strings.Replace(postgres.DSN(s.name, ""), "postgres@", role+"@", 1))
	testenv.Must(t, err)
	defer conn.Close(context.WithoutCancel(t.Context()))
	if user := queryText(t, conn, "SELECT current_user::text"); user != role {
		t.Fatalf("the test is %s", user)
	}
	for _, denied := range []string{
		"SELECT * FROM secrets", "INSERT INTO outbox DEFAULT VALUES", "UPDATE outbox SET topic = 'x'", "DELETE FROM outbox", "DROP TABLE outbox",
		"CREATE PUBLICATION mine FOR TABLE secrets", "ALTER PUBLICATION others ADD TABLE outbox", "SELECT rolpassword FROM pg_authid",
		"CREATE TABLE mine (id int)", "CREATE ROLE another", "ALTER SYSTEM SET work_mem = '1MB'", "COPY outbox TO PROGRAM 'cat'",
	} {
		if _, err := conn.Exec(ctx, denied); err == nil || !strings.Contains(err.Error(), "42501") && !strings.Contains(err.Error(), "must be owner") {
			t.Errorf("%s: %v", denied, err)
		}
	}
	for _, plugin := range []string{"pgoutput", "test_decoding"} { // rows of a table that it may not read
		slot := role + "_" + plugin
		queryText(t, conn, "SELECT slot_name::text FROM pg_create_logical_replication_slot('"+slot+"', '"+plugin+"')")
		s.sql("INSERT INTO secrets SELECT count(*), 'confidential' FROM secrets")
		read := "SELECT string_agg(data, '') FROM pg_logical_slot_get_changes('" + slot + "', NULL, NULL)"
		if plugin == "pgoutput" {
			read = "SELECT string_agg(encode(data, 'escape'), '') FROM pg_logical_slot_get_binary_changes('" + slot + "', NULL, NULL, 'proto_version', '1', 'publication_names', 'others')"
		}
		if rows := queryText(t, conn, read); !strings.Contains(rows, "confidential") {
			t.Errorf("%s shows %q", plugin, rows)
		}
		queryText(t, conn, "SELECT pg_drop_replication_slot('"+slot+"')::text")
	}
	queryText(t, conn, "SELECT pg_drop_replication_slot('"+role+"_others')::text") // somebody else's
	wal, err := pgconn.Connect(ctx, strings.Replace(postgres.DSN(s.name, "", "replication", "database"), "postgres@", role+"@", 1))
	testenv.Must(t, err)
	defer wal.Close(context.WithoutCancel(t.Context()))
	if _, err := pglogrepl.StartBaseBackup(ctx, wal, pglogrepl.BaseBackupOptions{Fast: true, NoVerifyChecksums: true}); err != nil {
		t.Errorf("a copy of the whole server: %v", err)
	}
}

func queryText(t *testing.T, conn *pgx.Conn, query string) string {
	t.Helper()
	var text string
	if err := conn.QueryRow(t.Context(), query).Scan(&text); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return text
}

// The same in MySQL and MariaDB.
func TestStolenPasswordOfMySQL(t *testing.T) {
	t.Parallel()
	onMySQL(t, func(s *site) {
		user := strings.ReplaceAll(s.name, "cmd_stolenpasswordof", "")
		s.setup().sql("CREATE TABLE secrets (id int PRIMARY KEY, text varchar(99))", "CREATE USER "+user+" IDENTIFIED BY 'geheim'",
			"GRANT "+s.mysql.ReplicationRights()+" ON *.* TO "+user, "GRANT SELECT ON outbox TO "+user)
		db, err := sql.Open("mysql", fmt.Sprintf("%s:geheim@tcp(%s)/%s?allowNativePasswords=true", user, s.mysql.Addr(), s.name))
		testenv.Must(s.t, err)
		defer db.Close()
		ctx := s.t.Context()
		for _, denied := range []string{
			"SELECT * FROM secrets", "INSERT INTO outbox () VALUES ()", "DELETE FROM outbox", "DROP TABLE outbox", "CREATE TABLE mine (id int)",
			"SELECT * FROM mysql.user", "PURGE BINARY LOGS BEFORE NOW()", "SET GLOBAL binlog_expire_logs_seconds = 1", "CREATE USER another",
			"SELECT LOAD_FILE('/etc/passwd') FROM mysql.db", "RESET BINARY LOGS AND GTIDS",
		} {
			if _, err := db.ExecContext(ctx, denied); err == nil || !strings.Contains(err.Error(), "denied") {
				if s.mysql.Flavor == testenv.MariaDBFlavor && strings.HasPrefix(denied, "RESET BINARY") {
					continue // is no statement there
				}
				s.t.Errorf("%s: %v", denied, err)
			}
		}
		s.sql("INSERT INTO secrets VALUES (1, 'confidential')")
		rows, err := db.QueryContext(ctx, "SHOW BINLOG EVENTS LIMIT 10")
		if err != nil {
			s.t.Fatalf("the binlog of all databases: %v", err)
		}
		defer rows.Close()
		if !rows.Next() {
			s.t.Errorf("the binlog shows nothing: %v", rows.Err())
		}
	})
}

// The same in Redis, with the rights of docs/security.md.
func TestStolenPasswordOfRedis(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/security.md")
	testenv.Must(t, err)
	row := regexp.MustCompile(`\| the relay in Redis \|.*`).FindString(string(page))
	if !strings.Contains(row, "`~cdc-relay:{orders} ") {
		t.Errorf("the rights are for other keys: %s", row)
	}
	acl := regexp.MustCompile(`\+[a-z|]+`).FindAllString(strings.ReplaceAll(row, `\|`, "|"), -1)
	do := func(user string, args ...string) string {
		t.Helper()
		var out bytes.Buffer
		for _, line := range [][]string{{"AUTH", user, "geheim"}, args} {
			if user == "" && line[0] == "AUTH" {
				continue
			}
			fmt.Fprintf(&out, "*%d\r\n", len(line))
			for _, arg := range line {
				fmt.Fprintf(&out, "$%d\r\n%s\r\n", len(arg), arg)
			}
		}
		out.WriteString("*1\r\n$4\r\nQUIT\r\n")
		return exchange(t, redis.Addr(), out.Bytes())
	}
	do("", append([]string{"ACL", "SETUSER", "thief", "on", ">geheim", "~cdc-relay:{stolen}"}, acl...)...)
	for _, allowed := range [][]string{{"GET", "cdc-relay:{stolen}"}, {"SET", "cdc-relay:{stolen}", "x"}, {"INFO", "server"}, {"SELECT", "1"}} {
		if got := do("thief", allowed...); strings.Contains(got, "NOPERM") || !strings.HasPrefix(got, "+OK") {
			t.Errorf("%s: %s", allowed, got)
		}
	}
	for _, denied := range [][]string{
		{"GET", "cdc-relay:{other}"},
		{"SET", "other", "x"},
		{"DEL", "cdc-relay:{stolen}"},
		{"KEYS", "*"},
		{"FLUSHALL"},
		{"CONFIG", "GET", "*"},
		{"EVAL", "return redis.call('get', 'other')", "0"},
		{"EVAL", "return redis.call('flushall')", "0"},
		{"ACL", "LIST"},
		{"SHUTDOWN"},
		{"REPLICAOF", "127.0.0.1", "1"},
		{"MONITOR"},
	} {
		if got := do("thief", denied...); !strings.Contains(got, "NOPERM") && !strings.Contains(got, "The user executing the script can't") {
			t.Errorf("%s: %s", denied, got)
		}
	}
}

// exchange sends everything to a server and returns its answers.
func exchange(t *testing.T, addr string, request []byte) string {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
	testenv.Must(t, err)
	defer conn.Close()
	if _, err := conn.Write(request); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	testenv.Must(t, err)
	return string(answer)
}
