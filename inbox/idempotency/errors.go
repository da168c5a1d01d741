package idempotency

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

var (
	// ErrInvalidKey is wrapped by every error about a key or a scope. Nothing was sent to the database.
	ErrInvalidKey = errors.New("invalid idempotency key")

	// ErrInProgress means that another call with the same key has not ended within the time of [WithWait]. Try again later.
	ErrInProgress = errors.New("another request with this idempotency key is in progress: try again")

	// ErrTooLarge means that a response has more bytes than [WithMaxResponse] allows. Its transaction was rolled back.
	ErrTooLarge = errors.New("the response is too large to be stored")

	// ErrStreaming means that a handler tried to send a part of its response before the commit. Its transaction was rolled back.
	ErrStreaming = errors.New("the response is sent after the commit and cannot be streamed")
)

// UnauthorizedError is for the scope of [Store.Middleware]: the request has no valid credentials. The answer is 401 with
// Challenge in the header WWW-Authenticate (RFC 9110, section 11.6.1), such as `Bearer`.
type UnauthorizedError struct{ Challenge string }

// Error returns what happened, and the fix.
func (*UnauthorizedError) Error() string {
	return "the request has no valid credentials: authenticate it"
}

// MismatchError means that the key was used for another request: the client has to make a new key.
type MismatchError struct{ Key Key }

// Error does not show the scope, which may name a person.
func (e *MismatchError) Error() string {
	return fmt.Sprintf("idempotency key %q was used for another request: use a new key", e.Key.Key)
}

// Key is the client's key in its scope.
type Key struct {
	// Scope is the authenticated caller, or one client could read another's response. It is required. If several endpoints
	// have one store, the request's hash tells them apart.
	Scope string

	// Key is the client's, at most MaxKey bytes.
	Key string

	absent bool // the client has sent no key, and this one is not kept
}

// The limits.
const (
	MaxKey  = 255      // bytes of a key, and of a scope
	MaxBody = 64 << 10 // bytes of a response's body, unless WithMaxResponse sets another limit
)

func (k Key) check() error {
	if err := checkText("scope", k.Scope); err != nil {
		return err
	}
	return checkText("key", k.Key)
}

func checkText(what, s string) error {
	switch {
	case s == "":
		return fmt.Errorf("%w: the %s is empty: set it", ErrInvalidKey, what)
	case len(s) > MaxKey:
		return fmt.Errorf("%w: the %s has %d bytes, the limit is %d: use a UUID, for example", ErrInvalidKey, what, len(s), MaxKey)
	case strings.ContainsRune(s, 0) || !utf8.ValidString(s):
		return fmt.Errorf("%w: the %s is not UTF-8 or has a NUL byte: use a UUID, for example", ErrInvalidKey, what)
	default:
		return nil
	}
}
