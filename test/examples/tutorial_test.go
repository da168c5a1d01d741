package examples

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// The commands of docs/tutorial.md print what the page shows.
func TestTutorial(t *testing.T) {
	for _, program := range []string{"bash", "curl", "psql"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("%v: install it: apt-get install bash curl postgresql-client", err)
		}
	}
	postgres := testenv.Postgres(t, testenv.PostgresOptions{})
	kafka := testenv.Kafka(t, testenv.KafkaOptions{})
	here := strings.NewReplacer("localhost:5432", postgres.Addr(), "localhost:9092", kafka.Bootstrap()[0],
		"localhost:8080", reservePort(t), "localhost:9464", reservePort(t))
	sh := startShell(t)
	steps := commandsOf(t, "tutorial.md")
	if len(steps) < 30 {
		t.Fatalf("only %d commands were found", len(steps))
	}
	for _, step := range steps {
		sh.follow(t, here, step)
		if t.Failed() {
			t.Fatal(sh.logs())
		}
	}
}

func reservePort(t *testing.T) string {
	t.Helper()
	addr, release, err := testenv.ReservePort(t.Context())
	testenv.Must(t, err)
	t.Cleanup(func() { _ = release() })
	return addr
}

// step is a command and what it prints.
type step struct{ command, shown string }

// commandsOf returns the commands of a page. Those of the fenced blocks begin with "$ ", and their output follows.
func commandsOf(t *testing.T, page string) (steps []step) {
	t.Helper()
	for _, block := range blocksOf(t, page, "") {
		for line := range strings.Lines(block + "\n") {
			if command, ok := strings.CutPrefix(line, "$ "); ok {
				steps = append(steps, step{command: command})
			} else if len(steps) > 0 {
				steps[len(steps)-1].shown += line
			}
		}
	}
	return steps
}

// blocksOf returns the fenced blocks of a page that have a language; "": those without.
func blocksOf(t *testing.T, page, language string) (blocks []string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/" + page)
	testenv.Must(t, err)
	for _, block := range regexp.MustCompile("(?sm)^```([a-z]*)\n(.*?)\n```$").FindAllStringSubmatch(string(text), -1) {
		if block[1] == language {
			blocks = append(blocks, block[2])
		}
	}
	return blocks
}

// shell is a bash in an empty folder. Its standard error, with that of commands, is in the file stderr.
type shell struct {
	dir string
	in  io.Writer
	out *bufio.Reader
	end func() // kills the shell and what it has started
}

func startShell(t *testing.T) *shell {
	t.Helper()
	source, errPath := filepath.Abs("../..")
	s := &shell{dir: t.TempDir()}
	stderr, errLog := os.Create(filepath.Join(t.TempDir(), "stderr"))
	testenv.Must(t, errors.Join(errPath, errLog))
	t.Cleanup(func() { _ = stderr.Close() })
	cmd := exec.Command("bash", "--norc", "--noprofile")
	cmd.Dir, cmd.Stderr = s.dir, stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // for the trap below
	in, errIn := cmd.StdinPipe()
	out, errOut := cmd.StdoutPipe()
	testenv.Must(t, errors.Join(errIn, errOut, cmd.Start()))
	s.end = func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	t.Cleanup(func() {
		s.end()
		_ = cmd.Wait()
	})
	s.in, s.out = in, bufio.NewReader(out)
	// The page clones what is tested here. When this process ends, the shell ends and takes along what it has started.
	s.run(t, fmt.Sprintf("trap 'kill -9 -$$' EXIT; git() { ln -s '%s' source; }", source))
	return s
}

const endOfOutput = "end of output"

// run runs a command and returns what it has printed.
func (s *shell) run(t *testing.T, command string) (output string) {
	t.Helper()
	limit := time.AfterFunc(cdctest.Patience(4*time.Minute), s.end) // the first builds
	defer limit.Stop()
	if _, err := fmt.Fprintf(s.in, "{ %s\n} < /dev/null; printf '%s\\n'\n", strings.TrimSpace(command), endOfOutput); err != nil {
		t.Fatal(err)
	}
	for {
		line, err := s.out.ReadString('\n')
		if before, ok := strings.CutSuffix(line, endOfOutput+"\n"); ok {
			return output + before
		}
		if err != nil {
			t.Fatalf("%v after %q in %s\n%s", err, output+line, command, s.logs())
		}
		output += line
	}
}

// reads matches commands that change nothing: they are repeated until what was done before has taken effect.
var reads = regexp.MustCompile(`^(psql .* "SELECT |parked localhost|cdc-relay (status|event|check)|curl -s localhost)`)

// follow runs a command and compares what it prints.
func (s *shell) follow(t *testing.T, here *strings.Replacer, step step) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), cdctest.Patience(4*time.Minute))
	defer cancel()
	want, got := pattern(step.shown), ""
	err := cdctest.Await(ctx, "what the page shows", func(context.Context) (bool, error) {
		got = s.run(t, here.Replace(step.command))
		if want.MatchString(got) {
			return true, nil
		}
		if !reads.MatchString(step.command) {
			return false, errors.New("another output")
		}
		return false, nil
	})
	if err != nil {
		t.Errorf("%v\n$ %s%s\nit shows\n%s", err, step.command, got, step.shown)
	}
	if strings.HasPrefix(step.command, "cp ") { // the configuration has addresses, too
		path := filepath.Join(s.dir, "cdc-relay.yaml")
		text, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, []byte(here.Replace(string(text))), 0o600)
		}
		testenv.Must(t, err)
	}
}

// pattern returns the pattern of an output that is shown: UUIDs and positions differ, and "…" is anything.
func pattern(shown string) *regexp.Regexp {
	p := regexp.QuoteMeta(strings.TrimSpace(shown))
	for _, r := range [][2]string{{`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`, `[0-9a-f-]{36}`}, {`0/[0-9A-F]+`, `[0-9A-F]+/[0-9A-F]+`}, {`…`, `(?s:.*)`}} {
		p = regexp.MustCompile(r[0]).ReplaceAllLiteralString(p, r[1])
	}
	return regexp.MustCompile(`^\s*` + p + `\s*$`)
}

// logs returns the logs that the tutorial has written.
func (s *shell) logs() string {
	var all strings.Builder
	for _, name := range []string{"relay.log", "rehearsal.log", "api.log", "consumer.log"} {
		text, _ := os.ReadFile(filepath.Join(s.dir, name))
		fmt.Fprintf(&all, "%s\n%s\n", name, text)
	}
	return all.String()
}
