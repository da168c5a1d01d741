package binlog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// contentError is something in the binlog that cannot be published as promised. located makes a [cdc.StopError] of it.
type contentError struct {
	reason string
	cause  error
	fix    string // what to do about the cause; "" if there is nothing to do
}

func (e *contentError) Error() string { return e.cause.Error() }

func (e *contentError) Unwrap() error { return e.cause }

func content(reason, fix, format string, args ...any) *contentError {
	return &contentError{reason: reason, cause: fmt.Errorf(format, args...), fix: fix}
}

const (
	// sinceThen publishes what a position tells nothing about, and stores a new one, if no run can go on from the stored one.
	sinceThen = "publish the rows since a time before the first event that consumers miss, and store a new position, with `cdc-relay repair --since TIME`"
	// startAnew does so if a run could go on from the stored one.
	startAnew = "drop the position with `cdc-relay position reset`, then " + sinceThen
	// nextFile is what to do if the binlog cannot be read and no position is behind the place: the server begins to send with the file
	// in which the position is.
	nextFile = "run `FLUSH BINARY LOGS`, " + startAnew
)

// location names the transaction that is open, and the position behind it, which a person can set: what came before it has
// been handed on, so that position leaves out nothing else. Without an open transaction behind is "".
func (ss *session) location() (where, behind string) {
	s := ss.src
	if !ss.tx.open {
		return "after the position " + s.received.String(), ""
	}
	past := s.received.Clone()
	past.Add(ss.tx.id)
	return "transaction " + ss.tx.id.String(), past.String()
}

// located adds the place to an error of the event that was taken last. Only the end of ctx and a [cdc.FixableError]
// leave it as it is: they are not about what stands in the binlog.
func (ss *session) located(ctx context.Context, err error) error {
	if e, ok := errors.AsType[*contentError](err); ok {
		return ss.stop(e)
	}
	if stop, ok := errors.AsType[*cdc.StopError](err); ok {
		where, _ := ss.location()
		return cdc.Stop(stop.Class, stop.Reason, fmt.Errorf("%s: %w", where, stop.Cause), stop.Fix)
	}
	if _, fixable := errors.AsType[*cdc.FixableError](err); fixable || ctx.Err() != nil {
		return err
	}
	return ss.damaged(err)
}

// pass is how a person gets past the open transaction, with the position behind it.
func (ss *session) pass(behind string) string {
	return "publish what consumers miss of it with `cdc-relay repair --since " + time.UnixMicro(ss.tx.micros).UTC().Format(time.RFC3339) +
		"`, with --overlap if a created_at is more than 10m before that, and move the position past it with `cdc-relay position set " + behind + " --skip-events`"
}

// unsent adds the transaction within which the stream ended to its error.
func (ss *session) unsent(err error) error {
	if _, stops := errors.AsType[*cdc.StopError](err); stops || !ss.tx.open || ss.tx.again || errors.Is(err, errEnded) {
		return err
	}
	if _, elsewhere := errors.AsType[*cdc.FixableError](err); elsewhere { // see located
		return err
	}
	where, behind := ss.location()
	return &cdc.UnsentError{
		Where: where, Cause: err,
		Past: "see in the server's log why it ends the stream there; if that does not pass, stop the relay once `cdc-relay status` shows 0 events in flight, " + ss.pass(behind),
	}
}

func (ss *session) stop(e *contentError) error {
	where, behind := ss.location()
	fix := nextFile
	if behind != "" {
		fix = ss.pass(behind)
	}
	if e.fix != "" {
		fix = e.fix + ", then " + fix
	}
	return cdc.Stop(cdc.ClassRuntime, e.reason, fmt.Errorf("%s: %w", where, e.cause), fix)
}

// unlessDamaged returns an error of the connection as it is.
func (ss *session) unlessDamaged(err error) error {
	if d, ok := errors.AsType[*damage](err); ok {
		return ss.damaged(d.error)
	}
	return err
}

// damaged is for an event that cannot be read and of which no row was handed on. The network may have damaged it, so
// the next attempt reads it again. The same error at the same place means that it is damaged in the server's binlog.
func (ss *session) damaged(err error) error {
	if ss.src.received == nil { // only the connection is tried
		return err
	}
	where, _ := ss.location()
	if ss.src.damagedAt != where {
		ss.src.damagedAt = where
		return err
	}
	return ss.stop(content("event_unreadable",
		"check the server's binlog with `mysqlbinlog --verify-binlog-checksum`", "%w, twice", err))
}

// undecodable is for an error in the rows of a transaction, some of which may have been handed on: it must not be tried
// again.
func undecodable(err error) error {
	if _, ok := errors.AsType[*contentError](err); ok {
		return err
	}
	if _, ok := errors.AsType[*cdc.StopError](err); ok {
		return err
	}
	return content("row_unreadable", "", "%w", err)
}
