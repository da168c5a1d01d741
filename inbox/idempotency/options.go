package idempotency

import (
	"errors"
	"net/http"
	"time"
)

type config struct {
	table      string // quoted, once the store is made
	wait       time.Duration
	maxRequest int64
	maxBody    int
	optional   bool
	keeps      func(status int) bool
	fail       func(http.ResponseWriter, *http.Request, error)
}

// Option configures a [Store].
type Option func(*config) error

// WithTable sets the table: a name, or schema.name.
func WithTable(name string) Option {
	return func(c *config) error {
		c.table = name
		return nil
	}
}

// WithMaxRequest sets how many bytes of a request's body [Store.Middleware] reads, by default 1 MiB: it must read the whole
// body before it can tell whether the request is a repeat.
func WithMaxRequest(bytes int64) Option {
	return func(c *config) error {
		if bytes < 0 {
			return errors.New("the limit of request bodies is negative: give WithMaxRequest bytes")
		}
		c.maxRequest = bytes
		return nil
	}
}

// WithMaxResponse sets how many bytes the body of a response may have, by default [MaxBody]. On MySQL and MariaDB the server's
// max_allowed_packet must be over twice as large.
func WithMaxResponse(bytes int) Option {
	return func(c *config) error {
		if bytes < 0 {
			return errors.New("the limit of responses is negative: give WithMaxResponse bytes")
		}
		c.maxBody = bytes
		return nil
	}
}

// WithOptionalKey lets requests without a key through [Store.Middleware]. They are handled each time, in the same way, and
// nothing of them is stored.
func WithOptionalKey() Option {
	return func(c *config) error {
		c.optional = true
		return nil
	}
}

// WithStored sets which statuses are stored with what the handler has written; others roll back, and a repeat is handled again.
// The default leaves out those that ask for a repeat: 408, 425 and 429. Statuses of 500 and more are never stored.
func WithStored(stored func(status int) bool) Option {
	return func(c *config) error {
		if stored == nil {
			return errors.New("what tells which statuses are stored is nil: give WithStored a function")
		}
		c.keeps = stored
		return nil
	}
}

// keeps is the default of [WithStored].
func keeps(status int) bool {
	return status != http.StatusRequestTimeout && status != http.StatusTooEarly && status != http.StatusTooManyRequests
}

// WithErrorHandler replaces what answers a request that [Store.Middleware] cannot let through, or whose handler returned an
// error, and sees every error. The default answers with application/problem+json (RFC 9457) and logs statuses of 500 and more
// with [log/slog.Default]. It may call [Respond] after something else.
func WithErrorHandler(fail func(http.ResponseWriter, *http.Request, error)) Option {
	return func(c *config) error {
		if fail == nil {
			return errors.New("the error handler is nil: give WithErrorHandler a function")
		}
		c.fail = fail
		return nil
	}
}
