package secure

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// The passwords have what configuration files, connection strings and shells take for syntax.
const first, second = `hunter2 %s"'\é`, `hunter3 :/@?#$ {x}`

// connection is one of the relay's connections, with its credentials in files.
type connection struct {
	*cdctest.Rig

	t     *testing.T
	proxy *testenv.ProxyServer
	dir   string
	certs *testenv.Authority
	// renew replaces the server's certificate, and setPassword the relay's password at the server.
	renew       func(ctx context.Context, newCA bool) error
	setPassword func(ctx context.Context, password string) error
	// refused is what the relay says of a wrong password.
	refused string
}

// Each credential of each connection is replaced under load: the files first, or the server first, or with a mistake in between.
// The relay needs no restart and no signal, says what is wrong, and loses and reorders nothing.
func TestRotation(t *testing.T) {
	for name, open := range map[string]func(*testing.T, *connection){
		"postgres": postgresConnection, "kafka": kafkaConnection, "redis": redisConnection,
		"mysql":   func(t *testing.T, c *connection) { mysqlConnection(t, c, testenv.MySQLFlavor) },
		"mariadb": func(t *testing.T, c *connection) { mysqlConnection(t, c, testenv.MariaDBFlavor) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &connection{t: t, dir: t.TempDir()}
			open(t, c)
			c.Start()
			c.Load(cdctest.Workload{Pause: 30 * time.Millisecond})
			c.progress()
			c.rotateCertificates()
			c.rotateCA()
			c.rotatePassword()
			c.Verify()
			c.showsNoSecret()
		})
	}
}

func (c *connection) rotateCertificates() {
	c.client(time.Now().Add(time.Hour))
	c.progress()

	c.client(time.Now().Add(-time.Minute))
	c.interrupt()
	c.says(".tls.cert")
	c.client(time.Now().Add(time.Hour))
	c.progress()

	key := c.read("client.key")
	write(c.t, c.file("client.key"), key[:len(key)/2])
	c.interrupt()
	c.says(".tls.key together")
	write(c.t, c.file("client.key"), key)
	c.progress()

	testenv.Must(c.t, c.renew(c.t.Context(), false))
	c.progress()
}

// rotateCA has the server's certificate signed by a new CA, before the relay knows it.
func (c *connection) rotateCA() {
	old := c.read("ca.pem")
	testenv.Must(c.t, c.renew(c.t.Context(), true))
	c.interrupt()
	c.says(".tls.ca")
	write(c.t, c.file("ca.pem"), old[:len(old)/2])
	c.says("holds no certificate")
	write(c.t, c.file("ca.pem"), old+c.certs.CA())
	c.progress()
	write(c.t, c.file("ca.pem"), c.certs.CA())
	c.progress()
}

func (c *connection) rotatePassword() {
	testenv.Must(c.t, c.setPassword(c.t.Context(), second))
	c.interrupt()
	c.says(c.refused)
	testenv.Must(c.t, os.Remove(c.file("password")))
	c.says("o such file or directory")
	write(c.t, c.file("password"), second+"\n")
	c.progress()
}

func (c *connection) file(name string) string { return filepath.Join(c.dir, name) }

func (c *connection) read(name string) string {
	c.t.Helper()
	text, err := os.ReadFile(c.file(name))
	testenv.Must(c.t, err)
	return string(text)
}

// client writes a client certificate that expires then.
func (c *connection) client(expires time.Time) {
	c.t.Helper()
	cert, key, err := c.certs.Client("relay", expires)
	testenv.Must(c.t, err)
	write(c.t, c.file("client.key"), key)
	write(c.t, c.file("client.pem"), cert)
}

// tls writes the files and returns the section of the configuration.
func (c *connection) tls() map[string]any {
	write(c.t, c.file("ca.pem"), c.certs.CA())
	write(c.t, c.file("password"), first+"\n")
	c.client(time.Now().Add(time.Hour))
	return map[string]any{"ca": c.file("ca.pem"), "cert": c.file("client.pem"), "key": c.file("client.key")}
}

// interrupt closes the connection, so that the relay uses its credentials again.
func (c *connection) interrupt() {
	c.t.Helper()
	c.FaultUnbounded("cut")
	c.proxy.Cut()
	testenv.Must(c.t, c.proxy.Restore())
}

// progress interrupts the connection and waits until events arrive and positions are saved over the next one.
func (c *connection) progress() {
	c.t.Helper()
	c.interrupt()
	c.AwaitProgress(50)
	before, _, err := c.Saved(c.t.Context())
	testenv.Must(c.t, err)
	c.Await("a position to be saved", func(ctx context.Context) (bool, error) {
		now, _, err := c.Saved(ctx)
		return now != before, err
	})
}

// says waits until the relay has logged text, or the command check says it: the log leaves out repeated lines for a while.
func (c *connection) says(text string) {
	c.t.Helper()
	from := len(c.Relay.Log())
	c.Await("the relay to say "+text, func(ctx context.Context) (bool, error) {
		out, err := c.Relay.Command(ctx, "check")
		if err == nil {
			return false, nil // the connection is not broken yet
		}
		return strings.Contains(c.Relay.Log()[from:]+out, text), nil
	})
}

func (c *connection) showsNoSecret() {
	c.t.Helper()
	ctx := c.Within(time.Minute)
	text := c.Relay.Log()
	for _, args := range [][]string{{"config", "show"}, {"status"}, {"check"}} {
		out, _ := c.Relay.Command(ctx, args...)
		text += out
	}
	for _, path := range []string{"/metrics", "/status", "/api/page"} {
		body, err := c.Relay.Get(ctx, path)
		testenv.Must(c.t, err)
		text += body
	}
	for _, secret := range []string{"hunter2", "hunter3", "PRIVATE KEY"} {
		if i := strings.Index(text, secret); i >= 0 {
			c.t.Errorf("leaked: %s", text[max(0, i-300):i+10])
		}
	}
}

func postgresConnection(t *testing.T, c *connection) {
	t.Helper()
	db := newPostgres(t)
	c.proxy, c.certs, c.renew = testenv.Proxy(t, shared.postgres.Addr()), shared.postgres.Certs, shared.postgres.Renew
	c.setPassword = func(ctx context.Context, password string) error {
		return db.Exec(ctx, "ALTER ROLE relay PASSWORD '"+strings.ReplaceAll(password, "'", "''")+"'")
	}
	testenv.Must(t, db.Exec(t.Context(), "CREATE ROLE relay LOGIN SUPERUSER"))
	testenv.Must(t, c.setPassword(t.Context(), first))
	c.refused = "PostgreSQL refuses the password"
	c.Rig = newRig(t, db, func(o *cdctest.RigOptions) {
		o.Checkpoint = cdctest.InFile
		o.Settings = map[string]any{
			"source.postgres.dsn": "postgres://relay@" + c.proxy.Addr() + "/" + db.Name() + "?channel_binding=require",
			"source.postgres.tls": c.tls(), "source.postgres.password_command": []string{"cat", c.file("password")},
		}
	})
}

func mysqlConnection(t *testing.T, c *connection, flavor string) {
	t.Helper()
	server := testenv.MySQL(t, testenv.MySQLOptions{Flavor: flavor, TLS: true})
	db, err := cdctest.NewMySQL(t.Context(), server, databaseName(t))
	testenv.Must(t, err)
	identified := "IDENTIFIED WITH caching_sha2_password BY "
	if flavor == testenv.MariaDBFlavor {
		identified = "IDENTIFIED BY "
	}
	quote := strings.NewReplacer(`\`, `\\`, `'`, `\'`)
	c.proxy, c.certs, c.renew = testenv.Proxy(t, server.Addr()), server.Certs, server.Renew
	c.setPassword = func(ctx context.Context, password string) error {
		return db.Exec(ctx, "ALTER USER relay@'127.0.0.1' "+identified+"'"+quote.Replace(password)+"'")
	}
	testenv.Must(t, db.Exec(t.Context(), "CREATE USER relay@'127.0.0.1' REQUIRE X509"))
	testenv.Must(t, db.Exec(t.Context(), "GRANT ALL ON *.* TO relay@'127.0.0.1'"))
	testenv.Must(t, c.setPassword(t.Context(), first))
	c.refused = "the server refuses the user"
	c.Rig = newRig(t, db, func(o *cdctest.RigOptions) {
		o.Settings = map[string]any{
			"source.mysql.dsn": "relay@tcp(" + c.proxy.Addr() + ")/" + db.Name(),
			"source.mysql.tls": c.tls(), "source.mysql.password": "${file:" + c.file("password") + "}",
		}
	})
}

func redisConnection(t *testing.T, c *connection) {
	t.Helper()
	server := testenv.Redis(t, testenv.RedisOptions{TLS: true, Users: []string{"relay on nopass ~* +@all"}, Settings: map[string]string{"tls-auth-clients": "yes"}})
	c.proxy, c.certs, c.renew = testenv.Proxy(t, server.Addr()), server.Certs, server.Renew
	c.setPassword = func(ctx context.Context, password string) error {
		_, err := server.Do(ctx, "ACL", "SETUSER", "relay", "resetpass", ">"+password)
		return err
	}
	testenv.Must(t, c.setPassword(t.Context(), first))
	c.refused = "refused the username or the password"
	c.Rig = newRig(t, newPostgres(t), func(o *cdctest.RigOptions) {
		o.Checkpoint, o.Redis = cdctest.InRedis, server
		o.Settings = map[string]any{
			"checkpoint.redis.addrs": []string{c.proxy.Addr()}, "checkpoint.redis.tls": c.tls(),
			"checkpoint.redis.username": "relay", "checkpoint.redis.password_command": []string{"cat", c.file("password")},
		}
	})
}

func kafkaConnection(t *testing.T, c *connection) {
	t.Helper()
	c.proxy, c.certs = shared.kafka.Brokers()[0].Proxy(), shared.kafka.Certs
	c.renew = func(ctx context.Context, newCA bool) error {
		return shared.kafka.Renew(ctx, newCA, testenv.ListenerProxied)
	}
	c.setPassword = setKafkaPassword
	testenv.Must(t, c.setPassword(t.Context(), first))
	c.refused = "kafka.sasl.username"
	c.Rig = newRig(t, newPostgres(t), func(o *cdctest.RigOptions) {
		o.Checkpoint, o.Listener = cdctest.InFile, testenv.ListenerProxied
		o.Settings = map[string]any{
			"kafka.tls":  c.tls(),
			"kafka.sasl": map[string]any{"mechanism": "SCRAM-SHA-512", "username": "rotated", "password": "${file:" + c.file("password") + "}"},
		}
	})
}

func setKafkaPassword(ctx context.Context, password string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(shared.kafka.Bootstrap()...))
	if err != nil {
		return err
	}
	defer client.Close()
	set := []kadm.UpsertSCRAM{{User: "rotated", Mechanism: kadm.ScramSha512, Iterations: 4096, Password: password}}
	altered, err := kadm.NewClient(client).AlterUserSCRAMs(ctx, nil, set)
	if err != nil {
		return err
	}
	return altered.Error()
}
