package idempotency

import (
	"bufio"
	"fmt"
	"maps"
	"net"
	"net/http"
	"strings"
)

// buffer keeps a handler's response until the commit.
type buffer struct {
	header, final http.Header // final is the header when the status was written, as net/http has it
	status        int
	body          []byte
	refused       error // why the response cannot be stored
}

func newBuffer() *buffer { return &buffer{header: http.Header{}} }

// Header implements [http.ResponseWriter].
func (b *buffer) Header() http.Header { return b.header }

// WriteHeader keeps the first final status. Informational ones are not sent: the connection belongs to the response that is
// sent after the commit.
func (b *buffer) WriteHeader(status int) {
	if b.status == 0 && status >= 200 {
		b.status, b.final = status, b.header.Clone()
	}
}

// Write keeps bytes up to the limit. Over it nothing is stored, and the transaction is rolled back.
func (b *buffer) Write(p []byte) (int, error) {
	b.WriteHeader(http.StatusOK)
	if len(b.body)+len(p) > MaxBody {
		b.refused = fmt.Errorf("%w: it has more than %d bytes: return a reference to it", ErrTooLarge, MaxBody)
		return 0, b.refused
	}
	b.body = append(b.body, p...)
	return len(p), nil
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

// response returns what is stored, and leaves in b.header what is sent.
func (b *buffer) response() (*Response, error) {
	if b.refused != nil {
		return nil, b.refused
	}
	b.WriteHeader(http.StatusOK)
	b.header = b.final
	stored := b.final.Clone()
	for name := range strings.SplitSeq(stored.Get("Connection"), ",") {
		stored.Del(strings.TrimSpace(name))
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
