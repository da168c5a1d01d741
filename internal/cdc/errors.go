package cdc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
)

var (
	// ErrFenced means that another relay with a newer generation owns the checkpoint, or with a newer epoch the transactional ID.
	ErrFenced = errors.New("fenced by a newer relay")
	// ErrStandby means that another relay leads and this one is a standby. Retryable.
	ErrStandby = errors.New("another relay leads")
	// ErrHungUp says that the source gave its connection up because the queue was full, and that there is room again.
	// Retryable at once.
	ErrHungUp = errors.New("closed the connection to the server")
	// ErrRewind ends an attempt: with exactly-once delivery its last transaction in Kafka cannot be committed any more, or whether it
	// was is not known; or an event can neither be published nor become a dead letter for now. The next attempt starts from the position
	// that is stored.
	ErrRewind = errors.New("start again from the stored position")
)

// UnusableCheckpoint is the reason of a [StopError] for a checkpoint that cannot be decoded.
const UnusableCheckpoint = "checkpoint_unusable"

// MissingColumn is the reason of a [StopError] for a table without a column that the relay needs.
const MissingColumn = "missing_column"

// Class is the class of an error that a retry cannot fix. It is the exit code of commands.
type Class uint8

// The classes.
const (
	// ClassRuntime is any other error (exit code 1).
	ClassRuntime Class = 1
	// ClassConfig is a setting, a grant or an object that must be corrected (exit code 2).
	ClassConfig Class = 2
	// ClassFenced means that another relay has taken over (exit code 4).
	ClassFenced Class = 4
	// ClassPosition means that the position is lost or contradicts the WAL or binlog (exit code 5).
	ClassPosition Class = 5
)

// StopError ends a run, because a retry cannot fix it. No field contains a payload or a secret.
type StopError struct {
	Class Class
	// Reason is a short snake_case word for metrics and status: "unroutable", "slot_lost".
	Reason string
	// Cause is what happened and where, one line without a full stop.
	Cause error
	// Fix is what to do about it. It starts with a verb and does not repeat Cause; "" if there is nothing to do, or if an
	// error that Cause wraps has the fix.
	Fix string
}

// Error returns the cause without the fix; see [Explain].
func (e *StopError) Error() string { return e.Cause.Error() }

func (e *StopError) Unwrap() error { return e.Cause }

// Stop returns a [StopError] with the given fields.
func Stop(class Class, reason string, cause error, fix string) error {
	return &StopError{Class: class, Reason: reason, Cause: cause, Fix: fix}
}

// FixableError is an error that may pass by itself, with a fix. The fields are like those of [StopError].
type FixableError struct {
	Cause error
	Fix   string
}

// Error returns the cause without the fix; see [Explain].
func (e *FixableError) Error() string { return e.Cause.Error() }

func (e *FixableError) Unwrap() error { return e.Cause }

// UnsentError means that the server did not send a transaction to its end. Past is how to go on behind it, which the relay tells once that
// has come again and again: other errors pass.
type UnsentError struct {
	Where, Past string
	Cause       error
}

func (e *UnsentError) Error() string { return e.Where + ": " + e.Cause.Error() }

func (e *UnsentError) Unwrap() error { return e.Cause }

// ConfigError returns a [StopError] of [ClassConfig]; format and args make its cause.
func ConfigError(reason, fix, format string, args ...any) error {
	return Stop(ClassConfig, reason, fmt.Errorf(format, args...), fix)
}

// Usage returns a [StopError] for an error on the command line.
func Usage(fix, format string, args ...any) error {
	return ConfigError("usage", fix, format, args...)
}

// PositionError returns a [StopError] of [ClassPosition]; format and args make its cause.
func PositionError(reason, fix, format string, args ...any) error {
	return Stop(ClassPosition, reason, fmt.Errorf(format, args...), fix)
}

// Fixable returns a [FixableError]; format and args make its cause.
func Fixable(fix, format string, args ...any) error {
	return &FixableError{Cause: fmt.Errorf(format, args...), Fix: fix}
}

// ReasonOf returns the reason of a [StopError]; "" for any other error.
func ReasonOf(err error) string {
	if stop, ok := errors.AsType[*StopError](err); ok {
		return stop.Reason
	}
	return ""
}

// ClassOf returns the class of a [StopError]; 0 for any other error.
func ClassOf(err error) Class {
	if stop, ok := errors.AsType[*StopError](err); ok {
		return stop.Class
	}
	return 0
}

// LastCause returns the innermost message; of joined errors that of the first. Drivers wrap it in the whole connection
// string. In place of the name of a timer it says what that means.
func LastCause(err error) string {
	for {
		next := errors.Unwrap(err)
		if many, ok := err.(interface{ Unwrap() []error }); ok && len(many.Unwrap()) > 0 {
			next = many.Unwrap()[0]
		}
		switch {
		case next != nil:
			err = next
		case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded): // "i/o timeout" is one or the other
			return "no answer in time"
		default:
			return err.Error()
		}
	}
}

// Fix returns the fix of the outermost error in err's chain that has one; "" if none has.
func Fix(err error) string {
	for err != nil {
		switch e := err.(type) { //nolint:errorlint // this walks the chain itself
		case *StopError:
			if e.Fix != "" {
				return e.Fix
			}
		case *FixableError:
			if e.Fix != "" {
				return e.Fix
			}
		case interface{ Unwrap() []error }:
			for _, inner := range e.Unwrap() {
				if fix := Fix(inner); fix != "" {
					return fix
				}
			}
			return ""
		}
		err = errors.Unwrap(err)
	}
	return ""
}

// Explain renders err for people, one line for each joined error: "cause" or "cause. Fix: fix.".
func Explain(err error) string {
	if joined, ok := err.(interface{ Unwrap() []error }); ok && strings.Contains(err.Error(), "\n") {
		var lines []string
		for _, e := range joined.Unwrap() {
			lines = append(lines, Explain(e))
		}
		return strings.Join(lines, "\n")
	}
	return Sentence(err.Error(), Fix(err))
}

// Sentence joins a cause and a fix, which may be "".
func Sentence(cause, fix string) string {
	if fix == "" {
		return cause
	}
	text := strings.TrimSuffix(cause, ".") + ". Fix: " + fix
	if strings.HasSuffix(fix, "?") || strings.HasSuffix(fix, ".") {
		return text
	}
	return text + "."
}
