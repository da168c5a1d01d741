package faults

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
)

// follow runs the command that a message says to type, with --yes if the command then asks for it, and returns its output.
func follow(t *testing.T, r *cdctest.Rig, said, start string, fill ...string) string {
	t.Helper()
	out, err := try(t, r, said, start, fill...)
	r.Must(err)
	return out
}

// try is follow for a command that may fail.
func try(t *testing.T, r *cdctest.Rig, said, start string, fill ...string) (out string, err error) {
	t.Helper()
	args, err := cdctest.PrintedCommand(t.Context(), said, start, fill...)
	r.Must(err)
	if args[0] == "repair" || args[0] == "replay" {
		r.Repeated(strings.Join(args, " "))
	}
	r.Await("a command to be done: "+strings.Join(args, " "), func(ctx context.Context) (bool, error) {
		out, err = r.Relay.Command(ctx, args...)
		// The server may not have noticed yet that the relay is gone.
		return err == nil || !strings.Contains(out, "a relay runs"), nil
	})
	t.Log(out)
	return out, err
}

// refuses starts the relay, which ends with the exit code, and returns what it says.
func refuses(t *testing.T, r *cdctest.Rig, code int) string {
	t.Helper()
	r.Must(r.Relay.Start(t.Context()))
	exit := r.AwaitExit(time.Minute, code)
	says(t, exit)
	return lastWords(exit.Log)
}

// stored replaces what matches in the checkpoint in Redis.
func stored(t *testing.T, r *cdctest.Rig, pattern, with string) {
	t.Helper()
	have := inRedis(r, "GET")
	changed := regexp.MustCompile(pattern).ReplaceAllString(have, with)
	if changed == have {
		t.Fatalf("nothing to change in %s", have)
	}
	inRedis(r, "SET", changed)
}
