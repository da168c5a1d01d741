package binlog

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// pastIt stands at the end of the mend of what is in the log; see located.
const pastIt = "move the position past it with `cdc-relay position set`"

// located names the transaction in a stop, and the position behind it, which a person can set. What came before it has
// been handed on, so that position leaves out nothing else.
func (ss *session) located(err error) error {
	stop, ok := errors.AsType[*cdc.StopError](err)
	if !ok {
		return err
	}
	where, behind := "behind the position "+ss.src.received.String(), ""
	if ss.tx.open {
		past := ss.src.received.clone()
		past.add(ss.tx.id)
		where, behind = "transaction "+ss.tx.id.text(ss.src.flavor), "`cdc-relay position set "+past.String()+"`"
	}
	return cdc.Stop(stop.Class, stop.Reason, &locatedError{where: where, behind: behind, err: stop.Cause})
}

// locatedError is an error of the log with its place.
type locatedError struct {
	where  string // "transaction 0-1-42"
	behind string // the command that moves the position behind it; "": the transaction is not known
	err    error
}

func (e *locatedError) Error() string {
	text := e.where + ": " + e.err.Error()
	if e.behind == "" {
		return text
	}
	return strings.ReplaceAll(text, "`cdc-relay position set`", e.behind)
}

func (e *locatedError) Unwrap() error { return e.err }

// incident is what an INCIDENT says. MySQL gives it a GTID. On MariaDB it has none and no position is behind it: it
// is sent to whoever reads the file that it is in, from whatever position.
func (ss *session) incident(e event) error {
	mend := pastIt
	if !ss.tx.open {
		mend = "FLUSH BINARY LOGS, and move the position to what `cdc-relay position show` calls server executed with `cdc-relay position set`"
	}
	return cdc.Stop(cdc.ClassRuntime, "incident", fmt.Errorf(
		"server has written an INCIDENT into its log (%s): events may be missing from it; publish from the outbox table what consumers miss, then %s", e.incident(), mend))
}

// incident reads an INCIDENT: its number (2), then text behind its length.
func (e event) incident() string {
	b := e.body()
	if len(b) < 3 || len(b)-3 < int(b[2]) {
		return "no reason given"
	}
	return printable(b[3 : 3+int(b[2])])
}

// printable is text from the log, without what a terminal would take amiss.
func printable(octets []byte) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, string(octets[:min(len(octets), 200)]))
}
