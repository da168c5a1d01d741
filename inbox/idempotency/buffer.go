package idempotency

import (
	"bufio"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
)

// buffer keeps a handler's response until the commit.
type buffer struct {
	outer         http.Header // set before the handler
	header, final http.Header // final is the header when the status was written, as net/http has it
	status        int
	body          []byte
	limit         int   // of body
	refused       error // why the response cannot be stored
}

func newBuffer(outer http.Header, limit int) *buffer {
	return &buffer{outer: outer, header: outer.Clone(), limit: limit}
}

// Header implements [http.ResponseWriter].
func (b *buffer) Header() http.Header { return b.header }

// WriteHeader keeps the first final status. Informational ones are not sent: the connection belongs to the response that is
// sent after the commit. Invalid ones panic, as in net/http.
func (b *buffer) WriteHeader(status int) {
	switch {
	case b.status != 0:
	case status < 100 || status > 999:
		panic(fmt.Sprintf("invalid WriteHeader code %d", status))
	case status == http.StatusSwitchingProtocols:
		b.refused = fmt.Errorf("%w: do not switch protocols, or serve this path without the middleware", ErrStreaming)
	case status >= 200:
		b.status, b.final = status, b.header.Clone()
	}
}

// Write keeps bytes up to the limit. Over it nothing is stored, and the transaction is rolled back.
func (b *buffer) Write(p []byte) (int, error) {
	b.WriteHeader(http.StatusOK)
	if len(b.body)+len(p) > b.limit {
		b.refused = tooLarge(b.limit)
		return 0, b.refused
	}
	b.body = append(b.body, p...)
	return len(p), nil
}

func tooLarge(limit int) error {
	return fmt.Errorf("%w: it has more than %d bytes: return a reference to it, or raise WithMaxResponse", ErrTooLarge, limit)
}

// FlushError implements the interface of [http.ResponseController].
func (b *buffer) FlushError() error {
	b.refused = fmt.Errorf("%w: do not flush, or serve this path without the middleware", ErrStreaming)
	return b.refused
}

// Flush implements [http.Flusher].
func (b *buffer) Flush() { _ = b.FlushError() }

// Hijack implements [http.Hijacker].
func (b *buffer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	b.refused = fmt.Errorf("%w: do not hijack the connection, or serve this path without the middleware", ErrStreaming)
	return nil, nil, b.refused
}

// response returns what is stored: of the headers those that the handler has changed; one that it has deleted is nil. b.final
// are those that are sent.
func (b *buffer) response() (*Response, error) {
	if b.refused != nil {
		return nil, b.refused
	}
	b.WriteHeader(http.StatusOK)
	stored := b.final.Clone()
	for name := range strings.SplitSeq(stored.Get("Connection"), ",") {
		stored.Del(strings.TrimSpace(name))
	}
	for name, values := range b.outer {
		if now, kept := stored[name]; !kept {
			stored[name] = nil
		} else if slices.Equal(now, values) {
			delete(stored, name)
		}
	}
	maps.DeleteFunc(stored, func(name string, _ []string) bool { return notStored(name) })
	return &Response{Status: b.status, Header: stored, Body: b.body}, nil
}

// notStored reports whether a header belongs to the connection (RFC 9110, section 7.6.1), or to one client.
func notStored(name string) bool {
	switch name {
	case "Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Set-Cookie":
		return true
	default:
		return false
	}
}
