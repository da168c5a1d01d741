package commands

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// get sends a request to a running relay.
func get(t *testing.T, url string) (code int, body string, err error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	testenv.Must(t, err)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

// exactlyOnce is in the name of a start with exactly-once delivery, which connects to Kafka before it loads the position.
const exactlyOnce = ", exactly-once"

// startsLate lists servers that may be unavailable or silent at the start, with what the relay calls them and its message.
func startsLate() []struct {
	name, with, says string
	addr             func(s *site) string
	silent           bool
} {
	type row = struct {
		name, with, says string
		addr             func(s *site) string
		silent           bool
	}
	database := func(s *site) string { return s.addr() }
	broker := func(*site) string { return kafka.Bootstrap()[0] }
	store := func(*site) string { return redis.Addr() }
	return []row{
		{"database", "database", "cannot be reached", database, false},
		{"silent database", "database", "does not answer as PostgreSQL does", database, true},
		{"Kafka", "kafka", "Kafka at", broker, false},
		{"silent Kafka", "kafka", "Kafka", broker, true},
		{"Redis", "checkpoint", "redis", store, false},
		{"silent Redis", "checkpoint", "redis", store, true},
		{"silent Kafka" + exactlyOnce, "kafka", "Kafka", broker, true},
		{"silent Redis" + exactlyOnce, "checkpoint", "redis", store, true},
	}
}

// A start waits for a server that is unavailable. Meanwhile the relay is alive and not ready, logs what it waits for, and
// exits with 0 after SIGTERM.
//
//covers:postgres 33 messages both
func TestStartWaitsForServers(t *testing.T) {
	t.Parallel()
	for _, tt := range startsLate() {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			if strings.HasSuffix(tt.name, exactlyOnce) {
				s.config += "delivery: exactly-once\n"
			}
			s.setup()
			way := testenv.Proxy(t, tt.addr(s))
			s.replace(tt.addr(s), way.Addr())
			if tt.silent {
				way.Swallow(testenv.Responses)
			} else {
				way.Cut()
			}
			relay := s.start()
			url := "http://" + relay.await(`msg="serving metrics.*address=(\S+)`)
			eventually(t, func() error {
				code, body, err := get(t, url+"/readyz")
				if code != http.StatusServiceUnavailable || !strings.Contains(body, "starting") || !strings.Contains(body, tt.says) {
					return errors.Join(err, fmt.Errorf("readyz: %d %s", code, body))
				}
				return err
			})
			if code, body, err := get(t, url+"/livez"); err != nil || code != http.StatusOK {
				t.Errorf("livez: %d %s %v", code, body, err)
			}
			if st := s.status(url); st.State != "starting" || st.Ready || st.LastError == nil || !strings.Contains(st.LastError.Text, tt.says) ||
				len(st.Problems) != 1 || st.Problems[0].With != tt.with {
				t.Errorf("status: %+v", st)
			}
			relay.await(`msg="(cannot|position).*, retrying".*` + tt.says)
			relay.stops()

			relay = s.start()
			relay.await(`msg="(cannot|position).*, retrying".*` + tt.says)
			testenv.Must(t, way.Restore())
			way.Heal(t.Context())
			s.insert(1)
			s.published(relay.leading(), 1)
			relay.stops()
		})
	}
}
