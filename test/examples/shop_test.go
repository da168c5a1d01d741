package examples

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	"go.yaml.in/yaml/v4"
	"golang.org/x/sync/errgroup"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// The shop takes each order once, although every request is sent twice, and reserves stock for each event once, although
// its consumer is killed. What the stock does not know is parked, with what follows it, until it is retried.
func TestShop(t *testing.T) {
	s := startShop(t)
	s.start(t, "consume")
	s.answers(t)

	const orders = 100
	var customers errgroup.Group
	customers.SetLimit(8)
	killed := make(chan struct{})
	go func() {
		defer close(killed)
		s.await(t, 20, "SELECT reserved FROM stock WHERE item = 'pen'")
		s.consumer.kill()
		s.start(t, "consume")
	}()
	for i := range orders {
		customers.Go(func() error {
			key := fmt.Sprintf("pens-%d", i)
			first, second := s.order(t, key, `{"item": "pen", "quantity": 1}`), s.order(t, key, `{"item": "pen", "quantity": 1}`)
			if first.status != http.StatusCreated || second.status != http.StatusCreated || first.body != second.body {
				return fmt.Errorf("two answers to one request: %v and %v", first, second)
			}
			return nil
		})
	}
	testenv.Must(t, customers.Wait())
	<-killed
	s.await(t, orders, "SELECT reserved FROM stock WHERE item = 'pen'")
	s.exactly(t, orders, "SELECT count(*) FROM orders WHERE item = 'pen'")
	s.exactly(t, orders+3, "SELECT count(*) FROM outbox") // and those of answers
	s.parks(t)
	s.exactly(t, orders, "SELECT reserved FROM stock WHERE item = 'pen'")
}

// answers checks the API: a key belongs to one request and one customer.
func (s *shop) answers(t *testing.T) {
	t.Helper()
	book := s.order(t, "k1", `{"item": "book", "quantity": 2}`)
	var id string
	if _, err := fmt.Sscanf(book.body, `{"id":"%36s`, &id); err != nil {
		t.Fatalf("%v: %v", err, book)
	}
	shown, cancelled := book.body, strings.Replace(book.body, "placed", "cancelled", 1)
	for _, a := range []struct {
		method, path, customer, key, body string
		want                              answer
	}{
		{"POST", "/orders", "alice", "k1", `{"item": "book", "quantity": 2}`, answer{201, book.body, true}},
		{"POST", "/orders", "alice", "k1", `{"item": "book", "quantity": 3}`, answer{422, "new key", false}},
		{"POST", "/orders", "alice", "", `{"item": "book", "quantity": 2}`, answer{400, "Idempotency-Key is missing", false}},
		{"POST", "/orders", "", "k1", `{"item": "book", "quantity": 2}`, answer{401, "", false}},
		{"POST", "/orders", "alice", "k2", `{"item": "book", "quantity": 0}`, answer{400, "an order needs", false}},
		{"POST", "/orders", "alice", "k2", `{"item": "book", "quantity": 0}`, answer{400, "an order needs", false}},
		{"POST", "/orders", "bob", "k1", `{"item": "book", "quantity": 2}`, answer{201, "bob", false}},
		{"GET", "/orders/" + id, "alice", "", "", answer{200, shown, false}},
		{"GET", "/orders/" + id, "bob", "", "", answer{404, "no such order", false}},
		{"GET", "/orders/" + id, "", "", "", answer{401, "", false}},
		{"POST", "/orders/" + id + "/cancel", "bob", "", "", answer{404, "", false}},
		{"POST", "/orders/" + id + "/cancel", "alice", "", "", answer{200, cancelled, false}},
		{"POST", "/orders/" + id + "/cancel", "alice", "", "", answer{200, cancelled, false}},
		{"GET", "/orders/" + id, "alice", "", "", answer{200, cancelled, false}},
	} {
		got := s.ask(t, a.method, a.path, a.customer, a.key, a.body)
		if got.status != a.want.status || got.replayed != a.want.replayed || !strings.Contains(got.body, a.want.body) {
			t.Errorf("%s %s by %q with key %q: %v, want %v", a.method, a.path, a.customer, a.key, got, a.want)
		}
	}
	s.await(t, 2, "SELECT reserved FROM stock WHERE item = 'book'") // bob's; alice's order is cancelled
	s.await(t, 3, "SELECT count(*) FROM inbox")
}

// parks orders what the stock does not know, and cancels it: both events wait for each other.
func (s *shop) parks(t *testing.T) {
	t.Helper()
	tea := s.order(t, "tea", `{"item": "tea", "quantity": 5}`)
	if !strings.Contains(tea.body, "tea") {
		t.Fatal(tea)
	}
	id := tea.body[len(`{"id":"`):][:36]
	if a := s.ask(t, "POST", "/orders/"+id+"/cancel", "alice", "", ""); a.status != http.StatusOK {
		t.Fatal(a)
	}
	s.await(t, 2, "SELECT count(*) FROM inbox_parked")
	for customer, want := range map[string]answer{"operator": {status: 200}, "alice": {status: 403}, "": {status: 401}} {
		listed := s.ask(t, "GET", "/parked/?payload=true", customer, "", "")
		if listed.status != want.status || strings.Count(listed.body, `"key":"`+id) != 2 && want.status == 200 || strings.Contains(listed.body, "no item") != (want.status == 200) {
			t.Errorf("%q sees %v", customer, listed)
		}
	}
	s.exec(t, "INSERT INTO stock VALUES ('tea', 0)")
	if said := s.ask(t, "POST", "/parked/retry", "operator", "", `{"topic": "orders"}`); said.body != `{"messages":2}` {
		t.Error(said)
	}
	s.await(t, 1, "SELECT 1 - count(*) FROM inbox_parked")
	s.exactly(t, 0, "SELECT count(*) - (SELECT count(*) FROM outbox) FROM inbox")
	s.exactly(t, 0, "SELECT reserved FROM stock WHERE item = 'tea'")
}

// shop is the example with its servers and the relay.
type shop struct {
	binary, dsn, url string
	env              []string
	db               *sql.DB
	consumer         *process
}

// startShop starts servers, the relay with the example's configuration, and the API.
func startShop(t *testing.T) *shop {
	t.Helper()
	server := testenv.Postgres(t, testenv.PostgresOptions{})
	for _, statement := range []string{"CREATE ROLE app LOGIN", "CREATE ROLE cdc_relay LOGIN REPLICATION", "CREATE DATABASE shop OWNER app"} {
		testenv.Must(t, server.Exec(t.Context(), "postgres", statement))
	}
	kafka := testenv.Kafka(t, testenv.KafkaOptions{})
	s := &shop{binary: build(t, "shop"), dsn: server.DSN("shop", "app")}
	s.env = append(os.Environ(), "DATABASE_URL="+s.dsn, "KAFKA="+kafka.Bootstrap()[0], "SHOP_PASSWORD=secret", "SHOP_ADDR=127.0.0.1:0")
	var err error
	if s.db, err = sql.Open("pgx", s.dsn); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.db.Close() })
	s.run(t, "migrate")
	s.run(t, "migrate") // it may be repeated

	t.Setenv("KAFKA", kafka.Bootstrap()[0])
	t.Setenv("RELAY_DATABASE_URL", server.DSN("shop", "cdc_relay"))
	t.Setenv("CDC_RELAY_OWNER_DSN", s.dsn)
	startRelay(t, "../../examples/shop/cdc-relay.yaml")
	first, err := bufio.NewReader(s.start(t, "serve").out).ReadString('\n')
	testenv.Must(t, err)
	s.url = strings.TrimSpace(strings.TrimPrefix(first, "serving orders at "))
	return s
}

// startRelay sets up and starts the relay with a configuration file.
func startRelay(t *testing.T, path string) *cdctest.Relay {
	t.Helper()
	text, err := os.ReadFile(path)
	testenv.Must(t, err)
	var config cdctest.Config
	testenv.Must(t, yaml.Unmarshal(text, &config))
	dir := t.TempDir()
	binary, err := cdctest.Binary(t.Context(), dir)
	testenv.Must(t, err)
	r, err := cdctest.NewRelay(binary, dir, config)
	testenv.Must(t, err)
	t.Cleanup(func() { _ = r.Close() })
	if _, err := r.Command(t.Context(), "setup"); err != nil {
		t.Fatal(err)
	}
	testenv.Must(t, r.Start(t.Context()))
	ctx, cancel := context.WithTimeout(t.Context(), cdctest.Patience(4*time.Minute))
	defer cancel()
	if err := r.AwaitReady(ctx); err != nil {
		t.Fatalf("%v: %s", err, r.LogTail(5))
	}
	return r
}

// process is a command of the shop that runs.
type process struct {
	cmd *exec.Cmd
	out io.Reader
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// start starts a command that does not end by itself.
func (s *shop) start(t *testing.T, command string) *process {
	t.Helper()
	cmd := exec.Command(s.binary, command)
	cmd.Env, cmd.Stderr = s.env, os.Stderr
	cmd.SysProcAttr = cdctest.DieWithParent()
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Error(err)
		return nil
	}
	p := &process{cmd, out}
	if command == "consume" {
		s.consumer = p
	}
	t.Cleanup(p.kill)
	return p
}

// run runs a command and returns its output.
func (s *shop) run(t *testing.T, command string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), s.binary, command)
	cmd.Env = s.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("shop %s: %v: %s", command, err, out)
	}
	return string(out)
}

type answer struct {
	status   int
	body     string
	replayed bool
}

func (s *shop) order(t *testing.T, key, body string) answer {
	t.Helper()
	return s.ask(t, "POST", "/orders", "alice", key, body)
}

func (s *shop) ask(t *testing.T, method, path, customer, key, body string) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return answer{}
	}
	if customer != "" {
		r.SetBasicAuth(customer, "secret")
	}
	if key != "" {
		r.Header.Set("Idempotency-Key", `"`+key+`"`)
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Error(err)
		return answer{}
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Error(err)
	}
	return answer{response.StatusCode, strings.TrimSpace(string(text)), response.Header.Get("Idempotency-Replayed") == "true"}
}

func (s *shop) exec(t *testing.T, statement string) {
	t.Helper()
	if _, err := s.db.ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

// await waits until a number is at least n.
func (s *shop) await(t *testing.T, n int, query string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), cdctest.Patience(4*time.Minute))
	defer cancel()
	if err := cdctest.Await(ctx, fmt.Sprintf("%d by %s", n, query), func(ctx context.Context) (bool, error) {
		var got int
		err := s.db.QueryRowContext(ctx, query).Scan(&got)
		return got >= n, err
	}); err != nil {
		t.Error(err)
	}
}

// exactly checks a number that does not change anymore. More than n means that something was done twice.
func (s *shop) exactly(t *testing.T, n int, query string) {
	t.Helper()
	var got int
	testenv.Must(t, s.db.QueryRowContext(t.Context(), query).Scan(&got))
	if got > n {
		cdctest.Violation(t, cdctest.Duplicates, "%s: %d, want %d", query, got, n)
	}
	if got < n {
		t.Errorf("%s: %d, want %d", query, got, n)
	}
}

// The example's migrations are what the relay prints.
func TestShopMigrations(t *testing.T) {
	binary, err := cdctest.Binary(t.Context(), t.TempDir())
	testenv.Must(t, err)
	for _, dialect := range []string{"postgres", "mysql", "mariadb"} {
		for file, args := range map[string][]string{"1_outbox": {"--partition", "none"}, "2_inbox": {"--inbox"}, "3_idempotency": {"--idempotency"}} {
			printed, errPrint := exec.CommandContext(t.Context(), binary, append([]string{"schema", "print", "--dialect", dialect}, args...)...).Output()
			folder := map[bool]string{true: "postgres", false: "mysql"}[dialect == "postgres"]
			stored, errRead := os.ReadFile("../../examples/shop/migrations/" + folder + "/" + file + ".sql")
			if err := errors.Join(errPrint, errRead); err != nil || !bytes.Equal(printed, stored) {
				t.Errorf("%s %s: %v, it prints\n%s", dialect, file, err, printed)
			}
		}
	}
}
