package commands

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// hup writes the site's configuration and sends SIGHUP.
func (r *running) hup() {
	r.t.Helper()
	r.site.command("version")
	testenv.Must(r.t, r.cmd.Process.Signal(syscall.SIGHUP))
}

// has reports whether a line of the relay has the text.
func (r *running) has(text string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Contains(strings.Join(r.lines, "\n"), text)
}

// Under load, SIGHUP changes the level of the log and nothing else: a file with a mistake is refused with place and fix.
func TestSIGHUPAppliesTheLogLevel(t *testing.T) {
	t.Parallel()
	const events = 60
	s := newSite(t).setup()
	s.config += fmt.Sprintf("errors: {skip: [%q, %q]}\n", eventID(101), eventID(102))
	relay := s.start()
	url := relay.leading()
	load := make(chan struct{})
	go func() {
		defer close(load)
		for id := range events {
			s.insert(id + 1)
		}
	}()
	s.replace("log: {format: text}", "log: {format: text, level: debug}")
	relay.hup()
	relay.await(`level=INFO msg="configuration read again: log.level applies, other changes need a restart" log_level=debug$`)

	good := s.config
	s.replace("level: debug", "level: loud").replace("brokers", "broker")
	relay.hup()
	relay.await(`level=ERROR msg="configuration not read again: nothing was changed" error="\S*cdc-relay.yaml:3:\d+: kafka.broker is not a setting. Fix: did you mean brokers\?\\n\S*cdc-relay.yaml:9:28: log.level is \\"loud\\"`)
	s.config = "kafka: ["
	relay.hup()
	relay.await(`nothing was changed" error="\S*cdc-relay.yaml:2:1: is not valid YAML`)

	s.config = good
	s.replace("level: debug", "level: error")
	s.config += "in_flight: {events: 1000}\nstartup_timeout: 1m\n"
	relay.hup()
	relay.await(`level=INFO msg="configuration read again: .*" log_level=error`)
	<-load
	s.event(101, "a", "quiet")
	s.event(200, "a", s.name)
	s.published(url, 200)
	s.replace("level: error", "level: info")
	relay.hup()
	relay.await(`log_level=info`)
	s.event(102, "b", "heard")
	relay.await(`level=WARN msg="event not published, as configured" table=public.outbox event_id=` + eventID(102) + ` key=b topic=heard reason=skip`)
	if relay.has("topic=quiet") {
		t.Error("a warning was logged at the level error")
	}
	s.counts(url, events+1)
	relay.stops()
}

// Certificates and passwords are read at every connect. SIGHUP names the files that cannot be used, and the relay goes on.
func TestSIGHUPNamesBrokenFiles(t *testing.T) {
	t.Parallel()
	s := newSite(t).setup()
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		testenv.Must(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	web, password := write("web.yaml", "http_server_config: {http2: false}\n"), write("password", "hunter2\n")
	s.replace("http: {", "http: {web_config: "+web+", ").replace("postgres: {dsn", "postgres: {password: \"${file:"+password+"}\", dsn")
	relay := s.start()
	url := relay.leading()
	write("web.yaml", "basic_auth_users: {ops: hunter2}\n")
	relay.hup()
	relay.await(`level=ERROR msg="http.listen refuses every connection" error="http.web_config \S+ cannot be used .*" fix="correct it: `)
	write("password", "\n")
	relay.hup()
	relay.await(`level=ERROR msg="configuration not read again: nothing was changed" error=".* secret file \S+ is empty. Fix: write the secret into it`)
	write("web.yaml", "{}\n")
	write("password", "hunter2\n")
	s.insert(1)
	s.published(url, 1)
	if relay.has("hunter2") {
		t.Error("leaked")
	}
	relay.stops()
}

// A relay that starts or stands by survives SIGHUP too.
func TestSIGHUPBeforeLeading(t *testing.T) {
	t.Parallel()
	s := newSite(t).setup()
	leader := s.start()
	leader.leading()
	standby := s.start()
	standby.await(`msg="standing by"`)
	s.replace("log: {format: text}", "log: {format: text, level: debug}")
	standby.hup()
	standby.await(`msg="configuration read again: .*" log_level=debug`)
	leader.signal(syscall.SIGKILL)
	s.insert(1)
	s.published(standby.leading(), 1)
	standby.signal(syscall.SIGTERM)

	s.replace(redis.Addr(), "127.0.0.1:1")
	starting := s.start()
	starting.await(`msg="(cannot|position).*, retrying"`)
	starting.hup()
	starting.await(`msg="configuration read again: .*" log_level=debug`)
	starting.stops()
}
