package idempotency

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"

	"github.com/cdc-relay/cdc-relay/inbox"
	"github.com/cdc-relay/cdc-relay/writer"
)

// HeaderKey is the header of the key (IETF draft-ietf-httpapi-idempotency-key-header-07), and HeaderReplayed is set to "true"
// in a response that was stored.
const (
	HeaderKey      = "Idempotency-Key"
	HeaderReplayed = "Idempotency-Replayed"
)

// The errors of a request that is not given to its handler. ErrNoKey and ErrBadKey wrap [ErrInvalidKey]. ErrScope means that
// scope returned no caller, ErrReadBody that the body is too large or was cut short.
var (
	ErrNoKey    = fmt.Errorf("%w: the header Idempotency-Key is missing: send one, as a quoted string such as \"8e03978e-40d5-43e8-bc93-6894a57f9324\"", ErrInvalidKey)
	ErrBadKey   = fmt.Errorf("%w: the header Idempotency-Key is not one quoted string of printable ASCII: send one such as \"8e03978e-40d5-43e8-bc93-6894a57f9324\"", ErrInvalidKey)
	ErrScope    = errors.New("the caller is unknown: authenticate the request")
	ErrReadBody = errors.New("the request's body was not read to its end: send it again")
)

// errBodyTaken is a mistake of the server, not of the client.
var errBodyTaken = errors.New("the request's body, which tells it from others, was read before the middleware: read it and its form in the handler only")

// Handler does a request's work in the transaction. Events of the unit are appended before the commit, and what it calls
// AfterCommit runs before the response is sent. After an error everything is rolled back and what was written is not sent: the
// handler is called again if the database could not serialize the transaction ([writer.Retryable]), and other errors are
// answered with 500, or 503 if the database failed.
type Handler[Tx any] func(w http.ResponseWriter, r *http.Request, tx Tx, u *writer.Unit) error

type callerKey struct{}

// Caller returns whose request a [Handler] handles, as scope returned it; ctx is the request's. It is "" elsewhere.
func Caller(ctx context.Context) string {
	caller, _ := ctx.Value(callerKey{}).(string)
	return caller
}

// Middleware gives a request to h once, in a transaction, and sends what h has written after the commit. A repeat of the
// request gets the same response. The hash that tells requests apart is that of method, host, path, query, Content-Type and
// body, which nothing may have read before, also not as a form.
//
// scope returns the authenticated caller, see [Caller]; without one the request is refused, with 401 for an *[UnauthorizedError] and 403 for
// others. h must write with tx only: the response is buffered, at most [WithMaxResponse] bytes, and cannot be streamed. h sees
// the headers that were set before it, and what it changes in them is stored, but for Set-Cookie and the headers of a
// connection. There are no trailers. If h answers with a status that [WithStored] does not store, or panics, everything is
// rolled back; the panic goes on as *[inbox.PanicError].
//
// h must return the errors of its statements. An error that it expects, such as a row that exists, it may answer with 400 to
// 499 instead, as in [Store.Do].
//
// Other answers: 400 for a key that is invalid or missing (see [WithOptionalKey]) or a body that was cut short, 409 for another
// request with the key in progress, 413 for a body over [WithMaxRequest], 422 for a key of another request, 503 if the
// database failed: the client may send the request again with the same key.
func (s *Store[Tx]) Middleware(scope func(*http.Request) (string, error), h Handler[Tx]) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		response, replayed, err := s.serve(w, r, scope, h)
		if err != nil {
			passPanic(err)
			s.fail(w, r, err)
			return
		}
		if replayed {
			w.Header().Set(HeaderReplayed, "true")
		} else {
			clear(w.Header()) // what the handler has left of it is in the response
		}
		maps.Copy(w.Header(), response.Header)
		w.WriteHeader(response.Status)
		_, _ = w.Write(response.Body) // the client may be gone: it will ask again
	})
}

// passPanic goes on with a panic of the handler.
func passPanic(err error) {
	var p *inbox.PanicError
	if !errors.As(err, &p) {
		return
	}
	if p.Value == http.ErrAbortHandler { //nolint:errorlint // net/http compares it so
		panic(http.ErrAbortHandler)
	}
	panic(p)
}

func (s *Store[Tx]) serve(w http.ResponseWriter, r *http.Request, scope func(*http.Request) (string, error), h Handler[Tx]) (*Response, bool, error) {
	var k Key
	var err error
	if k.Scope, err = scope(r); err != nil || k.Scope == "" {
		return nil, false, errors.Join(ErrScope, err)
	}
	k.Key, err = readKey(r.Header.Values(HeaderKey))
	if s.optional && errors.Is(err, ErrNoKey) {
		k.Key, k.absent, err = rand.Text(), true, nil
	}
	if err != nil {
		return nil, false, err
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.maxRequest))
	switch {
	case err != nil:
		return nil, false, fmt.Errorf("%w: %w", ErrReadBody, err)
	case r.MultipartForm != nil, len(body) == 0 && (r.ContentLength > 0 || len(r.PostForm) > 0):
		return nil, false, errBodyTaken
	}
	var sent http.Header // by h, with what is not stored
	response, replayed, err := s.Do(r.Context(), k, hash(r, body), func(ctx context.Context, tx Tx, u *writer.Unit) (*Response, error) {
		again := r.WithContext(context.WithValue(ctx, callerKey{}, k.Scope))
		again.Body = io.NopCloser(bytes.NewReader(body))
		defer func() { // as net/http does for its own request
			if again.MultipartForm != nil {
				_ = again.MultipartForm.RemoveAll()
			}
		}()
		b := newBuffer(w.Header(), s.maxBody)
		if err := h(b, again, tx, u); err != nil {
			return nil, err
		}
		response, err := b.response()
		sent = b.final
		return response, err
	})
	if err == nil && !replayed {
		response.Header = sent
	}
	return response, replayed, err
}

// readKey reads the header's value, a string of RFC 9651. A bare token is accepted, because clients of other APIs send one.
func readKey(values []string) (string, error) {
	if len(values) == 0 {
		return "", ErrNoKey
	}
	v := strings.Trim(values[0], " \t")
	if len(values) > 1 || v == "" {
		return "", ErrBadKey
	}
	if v[0] != '"' {
		if strings.ContainsFunc(v, func(c rune) bool { return c <= ' ' || c >= 0x7f || strings.ContainsRune(`",;\`, c) }) {
			return "", ErrBadKey
		}
		return v, nil
	}
	var key strings.Builder
	for i := 1; i < len(v); i++ {
		switch c := v[i]; {
		case c == '"' && i == len(v)-1:
			if key.Len() == 0 {
				return "", ErrBadKey
			}
			return key.String(), nil
		case c == '\\' && i+1 < len(v) && (v[i+1] == '"' || v[i+1] == '\\'):
			i++
			key.WriteByte(v[i])
		case c == '"' || c == '\\' || c < ' ' || c >= 0x7f:
			return "", ErrBadKey
		default:
			key.WriteByte(c)
		}
	}
	return "", ErrBadKey
}

// hash of the request; each part is preceded by its length. The URI is that which was sent, because http.StripPrefix changes
// URL; the request of a test may have only URL.
func hash(r *http.Request, body []byte) (sum [32]byte) {
	h := sha256.New()
	parts := [][]byte{[]byte(r.Method), []byte(r.Host), []byte(r.RequestURI), []byte(r.URL.RequestURI()), []byte(r.Header.Get("Content-Type")), body}
	for _, part := range parts {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		h.Write(length[:])
		h.Write(part)
	}
	h.Sum(sum[:0])
	return sum
}
