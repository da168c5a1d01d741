package commands

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// badInput is an error in the relay's environment. testdata/bad_input.txt has the commands' output, which must tell a new
// user what to type next.
type badInput struct {
	name    string
	prepare func(s *site)
	// commands defaults to run and check.
	commands []string
}

// badConfig are errors that need no connection.
func badConfig() []badInput {
	run := []string{"run"}
	return []badInput{
		{"no configuration", func(s *site) { s.env = []string{"CDC_RELAY_CONFIG=other.yaml"} }, run},
		{"unknown key", func(s *site) { s.replace("brokers:", "broker:") }, run},
		{"owner's connection string for JDBC", func(*site) {}, []string{"setup --owner-dsn jdbc:postgresql://db/orders?password=s3cret"}},
		{"actions without authentication", func(s *site) { s.replace("http: {", "http: {actions: true, ") }, run},
		{"actions with a web config of nobody", func(s *site) {
			s.replace("http: {", "http: {actions: true, web_config: web.yaml, ")
			testenv.Must(s.t, os.WriteFile(filepath.Join(s.dir, "web.yaml"), []byte("{}\n"), 0o600))
		}, run},
		{"configuration is a directory", func(s *site) { s.env = []string{"CDC_RELAY_CONFIG=."} }, run},
		{"web config missing", func(s *site) { s.replace("http: {", "http: {web_config: no.yaml, ") }, []string{"config validate", "run"}},
	}
}

// badDatabase are errors of the connection to PostgreSQL, or of what setup creates there.
func badDatabase(strict, replica *testenv.PostgresServer, pooler, lenient *testenv.PgBouncerServer) []badInput {
	return []badInput{
		{"host does not resolve", func(s *site) { s.impatient().replace(s.pg.Addr(), "db.invalid:5432") }, nil},
		{"nothing listens", func(s *site) { s.impatient().replace(s.pg.Addr(), "127.0.0.1:1") }, nil},
		{"wrong password", func(s *site) { s.to(strict, "sslmode=require").replace("postgres@", "postgres:wrong@") }, nil},
		{"unknown role", func(s *site) { s.replace("postgres@", "nobody@") }, nil},
		{"parameter of Prisma", func(s *site) { s.replace("sslmode=disable", "sslmode=disable&schema=public") }, nil},
		{"parameter of another driver", func(s *site) { s.replace("sslmode=disable", "sslmode=disable&ssl=false") }, nil},
		{"connection string of .NET", func(s *site) { s.replace(s.pg.DSN(s.name, ""), "Host=db;Port=5432;Username=relay") }, []string{"run"}},
		{"limit of the role", func(s *site) {
			s.impatient().sql("CREATE ROLE limited LOGIN REPLICATION CONNECTION LIMIT 0").replace("postgres@", "limited@")
		}, nil},
		{"limit of the database", func(s *site) {
			s.impatient().sql("CREATE ROLE many LOGIN REPLICATION", "ALTER DATABASE "+s.name+" CONNECTION LIMIT 0").replace("postgres@", "many@")
		}, nil},
		{"database that takes no connections", func(s *site) {
			s.impatient()
			testenv.Must(s.t, s.pg.Exec(s.t.Context(), "postgres", "ALTER DATABASE "+s.name+" ALLOW_CONNECTIONS false"))
		}, nil},
		{"unknown database", func(s *site) { s.replace("/"+s.name, "/nowhere") }, nil},
		{"TLS refused", func(s *site) { s.replace("sslmode=disable", "sslmode=require") }, nil},
		{"TLS required", func(s *site) { s.to(strict, "sslmode=disable") }, nil},
		{"certificate of an unknown authority", func(s *site) { s.to(strict, "sslmode=verify-full") }, nil},
		{"pooler", func(s *site) { s.replace(s.pg.Addr(), pooler.Addr()) }, nil},
		{"pooler that lets settings pass", func(s *site) { s.setup().replace(s.pg.Addr(), lenient.Addr()) }, nil},
		{"wal_level not logical", func(s *site) { s.to(replica, "sslmode=disable").replace("/"+s.name, "/postgres") }, []string{"run", "check", "setup"}},
		{"no right to replicate", func(s *site) { s.setup().sql("CREATE ROLE onlooker LOGIN").replace("postgres@", "onlooker@") }, nil},
		{"no right to make anything", func(s *site) { s.sql("CREATE ROLE stranger LOGIN").replace("postgres@", "stranger@") }, []string{"setup"}},
		{"no right to make a slot", func(s *site) {
			s.setup().dropSlot()
			s.sql("CREATE ROLE maker LOGIN", "GRANT SELECT ON outbox TO maker").replace("postgres@", "maker@")
		}, []string{"setup"}},
		{"slot missing", func(s *site) { s.setup().dropSlot() }, nil},
		{"slot of another plugin", func(s *site) {
			s.setup().dropSlot()
			s.sql("SELECT pg_create_logical_replication_slot('" + s.slot() + "', 'test_decoding')")
		}, []string{"run", "check", "setup"}},
		{"slot of another database", func(s *site) {
			s.setup().sql("CREATE DATABASE "+s.name+"_2").replace("/"+s.name, "/"+s.name+"_2").setup()
			s.replace("postgres: {", "postgres: {slot: "+s.slot()+", ")
		}, []string{"run", "check", "setup", "teardown --yes"}},
		{"slot that sends prepared transactions", func(s *site) {
			s.setup().dropSlot()
			s.sql("SELECT pg_create_logical_replication_slot('" + s.slot() + "', 'pgoutput', twophase => true)")
		}, []string{"run", "check", "setup"}},
		{"publication missing", func(s *site) { s.setup().sql("DROP PUBLICATION " + s.slot()) }, []string{"run", "check", "setup"}},
		{"publication misspelt", func(s *site) { s.setup().replace("postgres: {", "postgres: {publication: other, ") }, []string{"run", "setup"}},
		{"publication without the table", func(s *site) { s.setup().sql("ALTER PUBLICATION " + s.slot() + " DROP TABLE outbox") }, nil},
		{"publication filters rows", func(s *site) {
			s.setup().sql("ALTER PUBLICATION " + s.slot() + " SET TABLE outbox WHERE (event_type = 'a')")
		}, []string{"run", "check", "setup"}},
		{"publication leaves columns out", func(s *site) {
			s.setup().sql("ALTER PUBLICATION " + s.slot() + " SET TABLE outbox (event_id, created_at)")
		}, nil},
		{"publication without inserts", func(s *site) { s.setup().sql("ALTER PUBLICATION " + s.slot() + " SET (publish = 'update')") }, nil},
		{"publication under the partitions' names", func(s *site) {
			s.setup().sql("ALTER PUBLICATION " + s.slot() + " SET (publish_via_partition_root = false)")
		}, nil},
		{"publication newer than its slot", func(s *site) {
			s.setup().sql("DROP PUBLICATION " + s.slot()).insert(1).run("setup")
			s.sql("CREATE PUBLICATION " + s.slot() + " FOR TABLE outbox WITH (publish = 'insert', publish_via_partition_root = true)")
		}, nil},
		{"table missing", func(s *site) { s.setup().sql("DROP TABLE outbox") }, nil},
		{"schema missing", func(s *site) { s.config += "tables: [{name: events.outbox}]\n" }, []string{"setup"}},
		{"view instead of a table", func(s *site) {
			s.setup().sql("CREATE VIEW shown AS SELECT * FROM outbox").config += "tables: [{name: public.shown}]\n"
		}, []string{"run", "check", "setup"}},
		{"table that is not logged", func(s *site) {
			s.setup().sql("CREATE UNLOGGED TABLE fast (LIKE outbox)").config += "tables: [{name: public.fast}]\n"
		}, []string{"run", "check", "setup"}},
		{"partitioned table that is not logged", func(s *site) {
			s.setup().sql("CREATE UNLOGGED TABLE fast (LIKE outbox) PARTITION BY RANGE (created_at)").config += "tables: [{name: public.fast}]\n"
		}, []string{"check"}},
		{"partition that is not logged", func(s *site) {
			s.setup().sql("CREATE UNLOGGED TABLE fast PARTITION OF outbox FOR VALUES FROM ('2000-01-01') TO ('2000-01-02')")
		}, nil},
		{"table that is not logged, before setup", func(s *site) {
			s.sql("CREATE UNLOGGED TABLE fast (event_id uuid PRIMARY KEY)").config += "tables: [{name: public.fast}]\n"
			s.env = []string{"DATABASE_URL=" + s.pg.DSN(s.name, "")}
		}, []string{"setup", "init --table fast"}},
		{"column missing", func(s *site) { s.setup().sql("ALTER TABLE outbox DROP COLUMN payload") }, nil},
		{"column of a route missing", func(s *site) {
			s.setup().replace("{topic: "+s.name+"}", `{match: {region: "eu"}, topic: `+s.name+"}")
		}, nil},
		{"column of a route's key missing", func(s *site) {
			s.setup().replace("{topic: "+s.name+"}", "{key: custumer_id, topic: "+s.name+"}")
		}, nil},
	}
}

// badRest are errors of Kafka, of the checkpoint store, or on the relay's machine.
func badRest(taken net.Addr, web string) []badInput {
	run := []string{"run"}
	of := func(port string) func(s *site) {
		return func(s *site) { s.impatient().setup().replace(kafka.Bootstrap()[0], port) }
	}
	return []badInput{
		{"PostgreSQL's port is Kafka's", func(s *site) { s.impatient().replace(s.pg.Addr(), kafka.Bootstrap()[0]) }, nil},
		{"PostgreSQL's port is HTTP's", func(s *site) { s.impatient().replace(s.pg.Addr(), web) }, nil},
		{"PostgreSQL's port is Redis's", func(s *site) { s.impatient().replace(s.pg.Addr(), redis.Addr()) }, nil},
		{"PostgreSQL's port is MySQL's", func(s *site) { s.impatient().replace(s.pg.Addr(), mysqls[testenv.MySQLFlavor].Addr()) }, nil},
		{"Kafka's port is PostgreSQL's", of(postgres.Addr()), []string{"check"}},
		{"Kafka's port is HTTP's", of(web), nil},
		{"Kafka's port is Redis's", of(redis.Addr()), nil},
		{"Kafka's port is a controller's", of(kafka.Addrs(testenv.ListenerController)[0]), nil},
		{"Redis's port is PostgreSQL's", func(s *site) { s.impatient().setup().replace(redis.Addr(), s.pg.Addr()) }, nil},
		{"Redis's port is Kafka's", func(s *site) { s.impatient().setup().replace(redis.Addr(), kafka.Bootstrap()[0]) }, nil},
		{"Redis's port is HTTP's", func(s *site) { s.impatient().setup().replace(redis.Addr(), web) }, nil},
		{"checkpoint file in /proc", func(s *site) { s.setup().fileCheckpoint("/proc/position") }, nil},
		{"repair without need", func(s *site) { s.setup() }, []string{"repair"}},
		{"template of an unknown column", func(s *site) { s.setup().replace("{topic: "+s.name+"}", `{topic: "`+s.name+`-${region}"}`) }, nil},
		{"replay's state is garbage", func(s *site) {
			s.setup()
			testenv.Must(s.t, os.WriteFile(filepath.Join(s.dir, "cdc-relay-replay.json"), []byte("garbage\n"), 0o600))
		}, []string{"replay --resume", "replay --id " + eventID(1)}},
		{"event with a bad ID", func(s *site) { s.setup() }, []string{"event 4711"}},
		{"topic missing", func(s *site) {
			s.setup().replace("topics: {create: {partitions: 3, replication_factor: 1}}\n", "").replace("topic: "+s.name, "topic: nowhere").insert(1)
		}, nil},
		{"more replicas than brokers", func(s *site) {
			s.setup().replace("replication_factor: 1", "replication_factor: 3").replace("topic: "+s.name, "topic: new-"+s.name).insert(1)
		}, nil},
		{"Kafka unreachable", func(s *site) { s.impatient().setup().replace(kafka.Bootstrap()[0], "127.0.0.1:1") }, nil},
		{"Kafka host does not resolve", func(s *site) { s.impatient().setup().replace(kafka.Bootstrap()[0], "kafka.invalid:9092") }, nil},
		{"Kafka wants TLS", func(s *site) {
			s.impatient().setup().replace(kafka.Bootstrap()[0], kafka.Addrs(testenv.ListenerTLS)[0])
		}, nil},
		{"Kafka refuses TLS", func(s *site) { s.impatient().setup().replace("kafka: {", "kafka: {tls: {}, ") }, nil},
		{"Kafka password wrong", func(s *site) {
			s.setup().replace(`brokers: ["`+kafka.Bootstrap()[0]+`"]`, `brokers: ["`+kafka.Addrs(testenv.ListenerSASL)[0]+
				`"], sasl: {mechanism: SCRAM-SHA-512, username: relay, password: wrong}`)
		}, nil},
		{"Redis unreachable", func(s *site) { s.impatient().setup().replace(redis.Addr(), "127.0.0.1:1") }, nil},
		{"checkpoint file of root's", func(s *site) { s.setup().otherUsersFile() }, nil},
		{"checkpoint directory missing", func(s *site) { s.setup().fileCheckpoint("nowhere/position") }, nil},
		{"port in use", func(s *site) { s.setup().replace("127.0.0.1:0", taken.String()) }, run},
		{"no relay to ask", func(s *site) { s.replace("127.0.0.1:0", "127.0.0.1:1") }, []string{"status"}},
	}
}

// badLimits run one after the other on a server with max_replication_slots = 1 and max_wal_senders = 2.
func badLimits() []badInput {
	return []badInput{
		{"no free slot", func(s *site) { s.sql("SELECT pg_create_physical_replication_slot('other')") }, []string{"setup", "check"}},
		{"slot lost", func(s *site) {
			s.sql("SELECT pg_drop_replication_slot('other')").setup()
			for range 4 {
				s.sql("CREATE TABLE filler ()", "DROP TABLE filler", "SELECT pg_switch_wal()")
			}
			s.sql("CHECKPOINT")
		}, []string{"run", "check", "setup", "position show"}},
		{"no free walsender", func(s *site) {
			s.setup()
			s.occupyWalsenders()
		}, nil},
	}
}

// Each mistake ends in one line that names the place and the fix.
//
//covers:postgres 28 messages
func TestBadInput(t *testing.T) {
	b := &book{}
	t.Run("group", func(t *testing.T) { // holds the parallel tests together
		servers := startBadServers(t)
		taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		testenv.Must(t, err)
		t.Cleanup(func() { _ = taken.Close() })
		web := httptest.NewServer(http.NotFoundHandler())
		t.Cleanup(web.Close)
		t.Run("limits", func(t *testing.T) {
			t.Parallel()
			for _, in := range b.chapter(badLimits()) {
				t.Run(in.name, func(t *testing.T) { b.write(in, newSiteOn(t, servers.narrow)) })
			}
		})
		inputs := append(badConfig(), badDatabase(servers.strict, servers.replica, servers.pooler, servers.lenient)...)
		for _, in := range b.chapter(append(inputs, badRest(taken.Addr(), web.Listener.Addr().String())...)) {
			t.Run(in.name, func(t *testing.T) {
				t.Parallel()
				b.write(in, newSite(t))
			})
		}
	})
	golden(t, "bad_input.txt", b.text())
}

// badServers are servers with unsuitable settings.
type badServers struct {
	strict, replica, narrow *testenv.PostgresServer
	pooler, lenient         *testenv.PgBouncerServer
}

func startBadServers(t *testing.T) *badServers {
	t.Helper()
	return &badServers{
		strict:  testenv.Postgres(t, testenv.PostgresOptions{TLS: true, HBA: []string{"hostssl all all 127.0.0.1/32 scram-sha-256"}}),
		replica: testenv.Postgres(t, testenv.PostgresOptions{Settings: map[string]string{"wal_level": "replica"}}),
		narrow: testenv.Postgres(t, testenv.PostgresOptions{Settings: map[string]string{
			"max_replication_slots": "1", "max_wal_senders": "2", "max_slot_wal_keep_size": "1MB",
		}}),
		pooler:  testenv.PgBouncer(t, postgres),
		lenient: testenv.PgBouncer(t, postgres, "ignore_startup_parameters = statement_timeout"),
	}
}

// book is the content of the golden file. Parallel tests write their own sections.
type book struct {
	mu    sync.Mutex
	order []string
	said  map[string]string
}

func (b *book) chapter(inputs []badInput) []badInput {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, in := range inputs {
		b.order = append(b.order, in.name)
	}
	return inputs
}

// write runs the commands and records what a user would look at: the last line of run and setup, and the failures of
// check.
func (b *book) write(in badInput, s *site) {
	s.t.Helper()
	in.prepare(s)
	commands := in.commands
	if commands == nil {
		commands = []string{"run", "check"}
	}
	var text strings.Builder
	for _, command := range commands {
		r := s.run(strings.Fields(command)...)
		fmt.Fprintf(&text, "  %s: exit %d\n", command, r.code)
		for _, line := range r.point() {
			text.WriteString("    " + line + "\n")
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.said == nil {
		b.said = map[string]string{}
	}
	b.said[in.name] = text.String()
}

func (b *book) text() string {
	var text strings.Builder
	for _, name := range b.order {
		text.WriteString(name + "\n" + b.said[name] + "\n")
	}
	return text.String()
}

// point returns the relevant part of an output: check's failures, else the last line on stderr, else everything.
func (r result) point() []string {
	var lines []string
	for line := range strings.Lines(r.stdout) {
		if strings.HasPrefix(line, "fail  ") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	if len(lines) > 0 {
		return lines
	}
	if stderr := strings.Split(strings.TrimSpace(r.stderr), "\n"); stderr[0] != "" {
		return stderr[len(stderr)-1:]
	}
	return strings.Split(strings.TrimSpace(r.stdout), "\n")
}

// to points the configuration at another server.
func (s *site) to(pg *testenv.PostgresServer, ssl string) *site {
	s.t.Helper()
	return s.replace(s.pg.Addr(), pg.Addr()).replace("sslmode=disable", ssl)
}

// impatient sets a short startup_timeout.
func (s *site) impatient() *site {
	s.config += "startup_timeout: 1s\n"
	return s
}

func (s *site) fileCheckpoint(path string) *site {
	s.t.Helper()
	return s.replace(fmt.Sprintf("redis: {addrs: [%q]}", redis.Addr()), "file: "+path)
}

// otherUsersFile creates a checkpoint file that the relay's user may not read, as after a run as root.
func (s *site) otherUsersFile() {
	s.t.Helper()
	s.fileCheckpoint("state/position")
	dir := filepath.Join(s.dir, "state")
	testenv.Must(s.t, os.Mkdir(dir, 0o755))
	mode := os.FileMode(0o600)
	if os.Getuid() == 0 {
		s.asNobody()
	} else {
		mode = 0
	}
	testenv.Must(s.t, os.WriteFile(filepath.Join(dir, "position"), []byte("{}\n"), mode))
}

// asNobody runs the commands as the user nobody, who may enter the site's directory.
func (s *site) asNobody() {
	s.t.Helper()
	const nobody = 65534
	s.credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	for dir := s.dir; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		testenv.Must(s.t, os.Chmod(dir, 0o755))
	}
}

// occupyWalsenders opens two replication connections until the test ends.
func (s *site) occupyWalsenders() {
	s.t.Helper()
	for range 2 {
		conn, err := pgconn.Connect(s.t.Context(), s.pg.DSN(s.name, "", "replication", "database"))
		testenv.Must(s.t, err)
		s.t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(s.t.Context())) })
	}
}
