package cdc

import "errors"

var (
	// ErrFenced says that another relay with a newer generation owns the checkpoint.
	ErrFenced = errors.New("fenced by a newer relay")
	// ErrStandby says that another relay leads: this one waits for its turn. Retryable.
	ErrStandby = errors.New("another relay leads")
)

// Class sorts the errors that a retry cannot mend; commands turn it into an exit code.
type Class uint8

// The classes.
const (
	// ClassRuntime is everything that is not one of the others (exit code 1).
	ClassRuntime Class = 1
	// ClassConfig is a setting, a grant or an object that a person must mend (exit code 2).
	ClassConfig Class = 2
	// ClassFenced is another relay in charge (exit code 4).
	ClassFenced Class = 4
	// ClassPosition is a position that is lost or contradicts the log (exit code 5).
	ClassPosition Class = 5
)

// StopError ends a run: retrying cannot mend it, a person must. Its text is one sentence that names the
// place, the cause and the mend. It never holds a payload or a secret.
type StopError struct {
	Class Class
	// Reason is a short snake_case word for metrics and status: "unroutable", "slot_lost".
	Reason string
	// Err is the sentence.
	Err error
}

func (e *StopError) Error() string { return e.Err.Error() }

func (e *StopError) Unwrap() error { return e.Err }

// Stop wraps err so that the relay stops instead of trying again.
func Stop(class Class, reason string, err error) error {
	return &StopError{Class: class, Reason: reason, Err: err}
}

// SettlingError is an error of a server that is there and not ready yet: it deserves more patience at the start than
// one that does not answer.
type SettlingError struct{ Err error }

func (e *SettlingError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *SettlingError) Unwrap() error { return e.Err }
