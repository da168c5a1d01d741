package deploy

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

func composeProject(t *testing.T) *types.Project {
	t.Helper()
	path := root + "/deploy/compose.yaml"
	project, err := loader.LoadWithContext(t.Context(), types.ConfigDetails{
		WorkingDir: root + "/deploy", ConfigFiles: []types.ConfigFile{{Filename: path}},
	})
	testenv.Must(t, err)
	return project
}

// staysWhereItStopped matches the configuration of a relay that a restart does not let continue from a slot that was moved.
var staysWhereItStopped = regexp.MustCompile(`(?m)^(checkpoint:|errors:.*on_stop: park)`)

func TestComposeFile(t *testing.T) {
	t.Parallel()
	project := composeProject(t)
	for name, service := range project.Services {
		if strings.HasPrefix(name, "relay-") && (!service.ReadOnly || !strings.Contains(project.Configs["prometheus"].Content, `"`+name+`:9464"`) || len(service.Ports) != 1) {
			t.Errorf("%s may write to its root, its page is not published, or Prometheus does not ask it", name)
		}
		if service.Restart != "" && !staysWhereItStopped.MatchString(project.Configs[service.Configs[0].Source].Content) {
			t.Errorf("%s is restarted after exit code 5, and only the slot has its position: it skips events", name)
		}
		if strings.HasPrefix(name, "setup-") && service.Restart != "" {
			t.Errorf("%s runs again and again: restart is %s", name, service.Restart)
		}
		if service.Image != "cdc-relay" && version(project, name) == "" {
			t.Errorf("%s has an image without a version, %s", name, service.Image)
		}
		for _, port := range service.Ports {
			if port.HostIP != "127.0.0.1" {
				t.Errorf("%s can be reached from other machines: %+v", name, port)
			}
		}
	}
	for name, config := range project.Configs {
		if _, err := os.Stat(config.File); config.File != "" && err != nil {
			t.Errorf("config %s: %v", name, err)
		}
	}
	for page, tested := range map[string]string{ // the next test runs PostgreSQL's
		"kafka.md": "Apache Kafka " + version(project, "kafka") + " (KRaft) | tested", "managed-databases.md": "MySQL " + version(project, "mysql") + " | tested",
	} {
		if !strings.Contains(read(t, root+"/docs/"+page), "| "+tested) {
			t.Errorf("docs/%s does not say %s", page, tested)
		}
	}
}

func version(project *types.Project, service string) string {
	_, tag, _ := strings.Cut(project.Services[service].Image, ":")
	return tag
}

// topology is what the compose file describes, as processes of this machine: its statements, configurations and commands,
// with other addresses.
type topology struct {
	*types.Project

	postgres  *testenv.PostgresServer
	mysql     *testenv.MySQLServer
	kafka     *kfake.Cluster
	addresses *strings.Replacer
	binary    string
}

func newTopology(t *testing.T) *topology {
	t.Helper()
	kafka, err := kfake.NewCluster(kfake.NumBrokers(1))
	testenv.Must(t, err)
	t.Cleanup(kafka.Close)
	project := composeProject(t)
	major, err := strconv.Atoi(version(project, "postgres"))
	testenv.Must(t, err)
	p := &topology{
		Project: project, kafka: kafka, postgres: testenv.Postgres(t, testenv.PostgresOptions{Version: major}),
		mysql: testenv.MySQL(t, testenv.MySQLOptions{Flavor: testenv.MySQLFlavor}), binary: relayBinary(t),
	}
	redis := testenv.Redis(t, testenv.RedisOptions{AppendOnly: true})
	p.addresses = strings.NewReplacer("postgres:5432", p.postgres.Addr(), "mysql:3306", p.mysql.Addr(), "redis:6379", redis.Addr(),
		"kafka:9092", kafka.ListenAddrs()[0], "root:root@", "root@")
	return p
}

// prepare does what the entry points of the databases' images do.
func (p *topology) prepare(t *testing.T) {
	t.Helper()
	for _, statement := range []string{"CREATE ROLE shop SUPERUSER LOGIN PASSWORD 'shop'", p.Configs["postgres-role"].Content} {
		testenv.Must(t, p.postgres.Exec(t.Context(), "postgres", statement))
	}
	testenv.Must(t, p.postgres.CreateDatabase(t.Context(), "orders"))
	testenv.Must(t, p.mysql.CreateDatabase(t.Context(), "billing"))
	for statement := range strings.SplitSeq(strings.TrimSpace(p.Configs["mysql-user"].Content), "\n") {
		testenv.Must(t, p.mysql.Exec(t.Context(), "billing", strings.TrimSuffix(statement, ";")))
	}
}

// relay returns the command of a service that runs the relay's image.
func (p *topology) relay(t *testing.T, service string) *exec.Cmd {
	t.Helper()
	s := p.Services[service]
	path := filepath.Join(t.TempDir(), "cdc-relay.yaml")
	text := p.Configs[s.Configs[0].Source].Content + "http: {listen: \"127.0.0.1:0\"}\n"
	write(t, path, p.addresses.Replace(text))
	args := []string(s.Command)
	if len(args) == 0 {
		args = []string{"run"}
	}
	cmd := exec.CommandContext(t.Context(), p.binary, append(args, "--config", path)...)
	cmd.Env = os.Environ()
	for name, value := range maps.All(s.Environment) {
		cmd.Env = append(cmd.Env, name+"="+p.addresses.Replace(*value))
	}
	return cmd
}

var statement = regexp.MustCompile(`(?s)--(?:command|execute) "(.*)"; done`)

// produce runs the statement of a producer once.
func (p *topology) produce(t *testing.T, service string) {
	t.Helper()
	found := statement.FindStringSubmatch(p.Services[service].Command[2])
	if found == nil {
		t.Fatalf("%s runs no statement: %q", service, p.Services[service].Command)
	}
	sql := strings.ReplaceAll(found[1], `\"`, `"`)
	var err error
	if service == "producer" {
		err = p.postgres.Exec(t.Context(), "orders", sql)
	} else {
		err = p.mysql.Exec(t.Context(), "billing", sql)
	}
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func TestComposeTopologyPublishesTheEventsOfBothDatabases(t *testing.T) {
	t.Parallel()
	p := newTopology(t)
	p.prepare(t)
	for database, producer := range map[string]string{"orders": "producer", "billing": "producer-billing"} {
		output(t, p.relay(t, "setup-"+database))
		output(t, p.relay(t, "setup-"+database)) // as at every other `docker compose up`
		relay := p.relay(t, "relay-"+database)
		var logs bytes.Buffer
		relay.Stdout, relay.Stderr = &logs, &logs
		testenv.Must(t, relay.Start())
		p.produce(t, producer)
		consumeOne(t, p.kafka.ListenAddrs(), database)
		testenv.Must(t, relay.Process.Signal(syscall.SIGTERM))
		if err := relay.Wait(); err != nil {
			t.Errorf("%s: %v\n%s", database, err, &logs)
		}
	}
}

func consumeOne(t *testing.T, brokers []string, topic string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumeTopics(topic))
	testenv.Must(t, err)
	defer client.Close()
	for range 100 {
		fetched := client.PollFetches(t.Context())
		testenv.Must(t, fetched.Err0())
		if fetched.NumRecords() > 0 {
			return
		}
	}
	t.Fatalf("no record in %s", topic)
}
