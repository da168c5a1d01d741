package secure

import (
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// endpoint is the configuration of the issuer's token endpoint. The secret is in a file.
func endpoint(tb testing.TB, change map[string]any) map[string]any {
	tb.Helper()
	secret := filepath.Join(tb.TempDir(), "secret")
	write(tb, secret, clientSecret+"\n")
	oauth := map[string]any{
		"token_url": shared.issuer.server.URL + "/token", "client_id": "relay", "client_secret": "${file:" + secret + "}",
		"params": map[string]any{"audience": audience, "life": "3s", "test": tb.Name()}, "extensions": map[string]any{"logicalCluster": "lkc-1"},
	}
	maps.Copy(oauth, change)
	maps.DeleteFunc(oauth, func(_ string, value any) bool { return value == nil })
	return map[string]any{"mechanism": "OAUTHBEARER", "oauth": oauth}
}

func oauthRig(t *testing.T, delivery cdctest.Delivery, sasl map[string]any) *cdctest.Rig {
	t.Helper()
	return newRig(t, newPostgres(t), func(o *cdctest.RigOptions) {
		o.Checkpoint, o.Listener, o.Delivery = cdctest.InFile, testenv.ListenerSASL, delivery
		o.Settings = map[string]any{"kafka.sasl": sasl}
	})
}

// Tokens expire every few seconds, and the broker closes each connection whose token has expired. The relay authenticates again
// on the open connections before that: nothing is lost, reordered or repeated, in a transaction or without one. With PLAIN, the
// broker's connections.max.reauth.ms asks for the same.
func TestReauthentication(t *testing.T) {
	t.Parallel()
	plain := map[string]any{"mechanism": "PLAIN", "username": testenv.KafkaUser, "password": testenv.KafkaPassword}
	for name, tt := range map[string]struct {
		delivery cdctest.Delivery
		sasl     map[string]any
	}{
		"at-least-once": {cdctest.AtLeastOnce, nil}, "exactly-once": {cdctest.ExactlyOnce, nil}, "plain": {cdctest.AtLeastOnce, plain},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sasl := tt.sasl
			if sasl == nil {
				sasl = endpoint(t, nil)
			}
			r := oauthRig(t, tt.delivery, sasl)
			r.Start()
			r.Load(cdctest.Workload{Pause: 20 * time.Millisecond})
			r.Hold(9 * time.Second) // three lives
			if issued := shared.issuer.issued(t.Name()); tt.sasl == nil && issued < 3 {
				t.Errorf("%d tokens in three lives", issued)
			}
			if report := r.Verify(); report.Duplicates != 0 {
				r.Violation(cdctest.Duplicates, "%d repeats", report.Duplicates)
			}
			if log := r.Relay.Log(); strings.Contains(log, "cannot publish") || strings.Contains(log, "producer ID is needed") {
				t.Error("a connection was closed") // the log follows
			}
		})
	}
}

// The token endpoint is away for longer than a token lives: the relay waits, says so, and goes on.
func TestTokenEndpointIsAway(t *testing.T) {
	t.Parallel()
	for _, delivery := range []cdctest.Delivery{cdctest.AtLeastOnce, cdctest.ExactlyOnce} {
		t.Run(string(delivery), func(t *testing.T) {
			t.Parallel()
			r := oauthRig(t, delivery, endpoint(t, nil))
			r.Start()
			r.Load(cdctest.Workload{Pause: 10 * time.Millisecond})
			r.AwaitProgress(100)
			shared.issuer.set(t.Name(), true)
			r.FaultUnbounded("no token")
			r.Must(r.Relay.AwaitLog(r.Within(time.Minute), "/token refuses the request (503: Service Unavailable)"))
			shared.issuer.set(t.Name(), false)
			r.AwaitProgress(100)
			r.Verify()
			for _, secret := range []string{"hunter2", "eyJ"} {
				if strings.Contains(r.Relay.Log(), secret) {
					t.Errorf("the log has %s", secret)
				}
			}
		})
	}
}

// A token of a file or of a command is read at each connect.
func TestGivenToken(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "token")
	for name, oauth := range map[string]map[string]any{
		"file": {"token": "${file:" + path + "}"}, "command": {"token_command": []string{"cat", path}},
	} {
		token, err := shared.issuer.sign(audience, time.Now().Add(time.Minute))
		testenv.Must(t, err)
		write(t, path, token+"\n")
		t.Run(name, func(t *testing.T) {
			r := oauthRig(t, cdctest.AtLeastOnce, map[string]any{"mechanism": "OAUTHBEARER", "oauth": oauth})
			r.Start()
			r.AwaitEvents(r.Append("k", 10))
			r.Verify()
		})
	}
}

// What is wrong with a token is one line with the fix, and without the token.
func TestBadTokens(t *testing.T) {
	t.Parallel()
	expired, err := shared.issuer.sign(audience, time.Now().Add(-time.Hour))
	testenv.Must(t, err)
	for name, tt := range map[string]struct {
		oauth map[string]any
		says  []string
	}{
		"audience": {map[string]any{"params": map[string]any{"audience": "other"}}, []string{"the broker refuses the token: ", "expected.audience", "kafka.sasl.oauth.params"}},
		"secret":   {map[string]any{"client_secret": "wrong-hunter2"}, []string{"401: invalid_client", "kafka.sasl.oauth.client_id"}},
		"path":     {map[string]any{"token_url": shared.issuer.server.URL + "/nowhere"}, []string{"404: Not Found", "correct kafka.sasl.oauth.token_url"}},
		"no JWT":   {given("hunter2"), []string{"the broker refuses the token: "}},
		"expired":  {given(expired), []string{"the broker refuses the token: "}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := oauthRig(t, cdctest.AtLeastOnce, endpoint(t, tt.oauth))
			r.Must(r.Relay.Start(t.Context()))
			log := r.AwaitExit(time.Minute, 2).Log
			last := lastLine(log)
			for _, text := range tt.says {
				if !strings.Contains(last, text) {
					t.Errorf("%s\ndoes not say %s", last, text)
				}
			}
			if strings.Contains(log, "hunter2") || strings.Contains(log, "eyJ") {
				t.Errorf("leaked: %s", log)
			}
		})
	}
}

// given is a token in place of an endpoint.
func given(token string) map[string]any {
	return map[string]any{"token": token, "token_url": nil, "client_id": nil, "client_secret": nil, "params": nil, "extensions": nil}
}

func lastLine(log string) string {
	lines := strings.Split(strings.TrimSpace(log), "\n")
	return lines[len(lines)-1]
}
