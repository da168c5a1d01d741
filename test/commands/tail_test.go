package commands

import (
	"bufio"
	"encoding/json"
	"io"
	"strings"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// tail prints the events that a filter selects, from the topics and from the WAL or binlog, and moves nothing.
func TestTail(t *testing.T) {
	t.Parallel()
	onAll(t, func(s *site) {
		t := s.t
		s.setup()
		relay := s.start()
		url := relay.leading()
		s.insert(1).published(url, 1) // makes the topic
		before := s.status(url).Checkpoint.Generation
		topics, lines := s.tail("printing events from now on", "--tenant", "acme", "--payload")
		source, records := s.tail("msg=leading", "--source", "--type", "OrderPlaced", "-o", "json")
		s.sql("DELETE FROM outbox").variety()
		if line := <-lines; !strings.HasSuffix(line, "Z  "+s.name+"  k1  OrderPlaced  "+eventID(1)+"  (2 bytes)") {
			t.Errorf("from the topics: %s", line)
		}
		if line := <-lines; !strings.HasSuffix(line, "  "+s.name+"  3  Sent  "+eventID(4)+"  Grüße") {
			t.Errorf("from the topics: %s", line)
		}
		for _, id := range []string{eventID(1), eventID(2)} {
			var rec struct {
				Topic, Time string
				Headers     map[string]string
				Value       *string
			}
			if line := <-records; json.Unmarshal([]byte(line), &rec) != nil || rec.Headers["ce_id"] != id || rec.Topic != s.name || rec.Value != nil {
				t.Errorf("from the source: %s", line)
			}
		}
		for _, r := range []*running{topics, source} {
			if code := r.signal(syscall.SIGINT); code != 0 {
				t.Errorf("SIGINT: exit %d: %q", code, r.lines)
			}
		}
		if st := s.status(url); st.State != "leading" || st.Checkpoint.Generation != before {
			t.Errorf("the relay: %+v", st)
		}
		s.want(2, `cdc-relay: --topic: topic "nowhere" does not exist. Fix: correct --topic, or start the relay so that the topic is created.`, "tail", "--topic", "nowhere")
	})
}

// tail goes on when the connection to a partition's leader breaks.
func TestTailOutlivesItsConnection(t *testing.T) {
	t.Parallel()
	own := testenv.Kafka(t, testenv.KafkaOptions{Proxied: true})
	broker := own.Brokers()[0]
	s := newSite(t).replace(kafka.Bootstrap()[0], broker.Addr(testenv.ListenerProxied))
	if err := own.CreateTopic(t.Context(), s.name, 1, nil); err != nil {
		t.Fatal(err)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(own.Bootstrap()...), kgo.DefaultProduceTopic(s.name))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	tail, lines := s.tail("printing events from now on")
	for _, id := range []string{eventID(1), eventID(2)} {
		record := &kgo.Record{Headers: []kgo.RecordHeader{{Key: "ce_id", Value: []byte(id)}}}
		if err := client.ProduceSync(t.Context(), record).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if line := <-lines; !strings.HasSuffix(line, id) {
			t.Errorf("%s, want %s", line, id)
		}
		if id == eventID(1) {
			broker.Proxy().Cut()
			tail.await("reading failed, trying again")
			if err := broker.Proxy().Restore(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// tail starts the command, waits until it reads, and returns its lines.
func (s *site) tail(reads string, args ...string) (*running, <-chan string) {
	s.t.Helper()
	cmd := s.command(append([]string{"tail"}, args...)...)
	out, in := io.Pipe()
	cmd.Stdout = in
	stderr, err := cmd.StderrPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	r := &running{t: s.t, site: s, cmd: cmd, done: make(chan struct{}), more: make(chan struct{})}
	go r.read(stderr)
	lines := make(chan string, 10)
	go func() {
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			lines <- scanner.Text()
		}
	}()
	s.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-r.done
		_ = in.Close()
	})
	r.await(reads)
	return r, lines
}
