package inbox_test

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/inbox"
	"github.com/cdc-relay/cdc-relay/inbox/idempotency"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
	"github.com/cdc-relay/cdc-relay/writer"
)

func TestConcurrentKeys(t *testing.T) {
	onEachWay(t, func(t *testing.T, db *database, w way) {
		concurrentCalls(t, db, func(level sql.IsolationLevel) once {
			keys := w.open(t, level).keys(t, idempotency.WithWait(2*time.Minute))
			return func(ctx context.Context, id string, work func(context.Context, execer) error) (bool, error) {
				r, replayed, err := keys.do(ctx, w.name+id, func(ctx context.Context, tx execer, _ *writer.Unit) (*idempotency.Response, error) {
					return &idempotency.Response{Status: 201, Body: []byte(id)}, work(ctx, tx)
				})
				if err == nil && string(r.Body) != id {
					t.Errorf("response %q", r.Body)
				}
				return replayed, err
			}
		})
	})
}

// The server ends the wait for another call, and the handler's statements and later transactions have the session's timeout.
func TestKeyInProgress(t *testing.T) {
	onEachWay(t, func(t *testing.T, db *database, w way) {
		keys := w.open(t, sql.LevelDefault).keys(t, idempotency.WithWait(100*time.Millisecond))
		timeouts := func(ctx context.Context, tx execer, _ *writer.Unit) (*idempotency.Response, error) {
			return &idempotency.Response{Status: 200}, tx(ctx, db.defaultTimeout())
		}
		_, _, err := keys.do(t.Context(), w.name, func(ctx context.Context, tx execer, _ *writer.Unit) (*idempotency.Response, error) {
			for range 3 {
				if _, _, err := keys.do(ctx, w.name, timeouts); !errors.Is(err, idempotency.ErrInProgress) {
					return nil, errors.Join(errors.New("second call"), err)
				}
				if _, _, err := keys.do(ctx, w.name+" another", timeouts); err != nil {
					return nil, err
				}
			}
			return timeouts(ctx, tx, nil)
		})
		testenv.Must(t, err)
		if _, replayed, err := keys.do(t.Context(), w.name, timeouts); !replayed || err != nil {
			t.Errorf("after the commit: replayed %v, error %v", replayed, err)
		}
	})
}

// defaultTimeout fails if the session's timeout of locks is not the default.
func (db *database) defaultTimeout() string {
	if db.my != nil {
		return "INSERT INTO effects SELECT CASE @@SESSION.innodb_lock_wait_timeout WHEN @@GLOBAL.innodb_lock_wait_timeout THEN 'default' END"
	}
	return "INSERT INTO effects SELECT CASE current_setting('lock_timeout') WHEN '0' THEN 'default' END"
}

// What fails is rolled back with the key, which is free then.
func TestKeyIsFreeAfterAFailure(t *testing.T) {
	onEachWay(t, func(t *testing.T, db *database, w way) {
		db.exec(t, "DELETE FROM effects")
		keys := w.open(t, sql.LevelDefault).keys(t)
		refused := errors.New("refused")
		for name, c := range map[string]struct {
			r    *idempotency.Response
			fail func(ctx context.Context, tx execer) error
			want error // nil: the response is returned
		}{
			"error":     {fail: func(context.Context, execer) error { return refused }, want: refused},
			"panic":     {fail: func(context.Context, execer) error { panic(refused) }, want: refused},
			"status":    {r: &idempotency.Response{Status: 503}},
			"too large": {r: &idempotency.Response{Status: 200, Body: make([]byte, idempotency.MaxBody+1)}, want: idempotency.ErrTooLarge},
			"lost":      {fail: func(ctx context.Context, tx execer) error { return tx(ctx, db.killSelf()) }},
			"rolled back": {
				r: &idempotency.Response{Status: 201}, want: writer.ErrNoTransaction,
				fail: func(ctx context.Context, tx execer) error { return tx(ctx, "ROLLBACK") }, // as a deadlock does whose error is not returned
			},
			"no response": {}, "no final status": {r: &idempotency.Response{Status: 103}},
		} {
			key := w.name + name
			r, replayed, err := keys.do(t.Context(), key, func(ctx context.Context, tx execer, _ *writer.Unit) (*idempotency.Response, error) {
				err := add(message(name))(ctx, tx)
				if c.fail != nil {
					err = errors.Join(err, c.fail(ctx, tx))
				}
				return c.r, err
			})
			if name == "status" && (err != nil || r.Status != 503) || name != "status" && (err == nil || c.want != nil && !errors.Is(err, c.want)) || replayed {
				t.Errorf("%s: %v, replayed %v, error %v", name, r, replayed, err)
			}
			if n := db.count(t, "effects WHERE message = '"+name+"'"); n != 0 {
				t.Errorf("%s: %d effects", name, n)
			}
			for again := range 2 {
				r, replayed, err := keys.do(t.Context(), key, func(ctx context.Context, tx execer, _ *writer.Unit) (*idempotency.Response, error) {
					return &idempotency.Response{Status: 201, Header: http.Header{"A": {"1", "2"}}, Body: []byte("done\x00\xff")}, add(message(name))(ctx, tx)
				})
				if err != nil || replayed != (again == 1) || r.Status != 201 || string(r.Body) != "done\x00\xff" || strings.Join(r.Header["A"], "") != "12" {
					t.Errorf("%s, then again: %v, replayed %v, error %v", name, r, replayed, err)
				}
			}
			if n := db.count(t, "effects WHERE message = '"+name+"'"); n != 1 {
				t.Errorf("%s, then again: %d effects", name, n)
			}
		}
		db.exec(t, "UPDATE idempotency_keys SET created_at = "+db.hourBefore("created_at")+" WHERE idempotency_key <> '"+w.name+"error'")
		n, err := keys.Purge(t.Context(), time.Now().Add(-30*time.Minute), 4)
		if left := db.count(t, "idempotency_keys"); err != nil || n != 7 || left != 1 {
			t.Errorf("purged %d, left %d, error %v", n, left, err)
		}
		db.exec(t, "DELETE FROM idempotency_keys")
	})
}

// A transaction that the server has ended does not keep another call from doing the work; the stored response stays.
func TestResponseIsNotReplaced(t *testing.T) {
	onEachWay(t, func(t *testing.T, _ *database, w way) {
		keys := w.open(t, sql.LevelDefault).keys(t)
		respond := func(body string) *idempotency.Response { return &idempotency.Response{Status: 201, Body: []byte(body)} }
		other := func(context.Context, execer, *writer.Unit) (*idempotency.Response, error) {
			return respond("other"), nil
		}
		_, _, err := keys.do(t.Context(), w.name, func(ctx context.Context, tx execer, _ *writer.Unit) (*idempotency.Response, error) {
			if err := tx(ctx, "ROLLBACK"); err != nil { // as a deadlock does whose error is not returned
				return nil, err
			}
			_, _, err := keys.do(ctx, w.name, other)
			return respond("late"), err
		})
		if !errors.Is(err, writer.ErrNoTransaction) {
			t.Errorf("late response: error %v", err)
		}
		if r, replayed, err := keys.do(t.Context(), w.name, other); err != nil || !replayed || string(r.Body) != "other" {
			t.Errorf("stored response: %v, replayed %v, error %v", r, replayed, err)
		}
	})
}

// Statuses that ask for a repeat are rolled back, and others as WithStored says, but never an error of the server.
func TestStoredStatuses(t *testing.T) {
	onEach(t, func(t *testing.T, db *database) {
		for name, c := range map[string]struct {
			opts   []idempotency.Option
			stored map[int]bool
		}{
			"default": {nil, map[int]bool{200: true, 303: true, 404: true, 409: true, 408: false, 425: false, 429: false, 500: false, 999: false}},
			"option": {
				[]idempotency.Option{idempotency.WithStored(func(status int) bool { return status != 404 })},
				map[int]bool{200: true, 404: false, 429: true, 500: false},
			},
		} {
			keys := db.ways()[0].open(t, sql.LevelDefault).keys(t, c.opts...)
			for status, stored := range c.stored {
				key := name + strconv.Itoa(status)
				for again := range 2 {
					r, replayed, err := keys.do(t.Context(), key, func(ctx context.Context, tx execer, _ *writer.Unit) (*idempotency.Response, error) {
						return &idempotency.Response{Status: status}, add(message(key))(ctx, tx)
					})
					if err != nil || r.Status != status || replayed != (stored && again == 1) {
						t.Errorf("%s: %v, replayed %v, error %v", key, r, replayed, err)
					}
				}
				if n := db.count(t, "effects WHERE message = '"+key+"'"); (n == 1) != stored {
					t.Errorf("%s: %d effects", key, n)
				}
			}
		}
	})
}

// A statement that failed does not keep a refusal from being stored, also on PostgreSQL, where nothing else can be done in its
// transaction. A success is not stored there.
func TestAnswerToAFailedStatement(t *testing.T) {
	onEachWay(t, func(t *testing.T, db *database, w way) {
		keys := w.open(t, sql.LevelDefault).keys(t, idempotency.WithWait(time.Minute))
		exists := func(status int) func(context.Context, execer, *writer.Unit) (*idempotency.Response, error) {
			return func(ctx context.Context, tx execer, _ *writer.Unit) (*idempotency.Response, error) {
				if tx(ctx, "INSERT INTO stock VALUES (1, 0)") == nil {
					return nil, errors.New("the row did not exist")
				}
				return &idempotency.Response{Status: status}, nil
			}
		}
		for again := range 2 {
			if r, replayed, err := keys.do(t.Context(), w.name, exists(409)); err != nil || r.Status != 409 || replayed != (again == 1) {
				t.Errorf("%v, replayed %v, error %v", r, replayed, err)
			}
		}
		raising := func(ctx context.Context, tx execer, u *writer.Unit) (*idempotency.Response, error) {
			u.Add(&writer.Event{AggregateType: "Order", AggregateID: "1", Type: "Refused", Payload: []byte("{}")})
			return exists(409)(ctx, tx, u)
		}
		if _, _, err := keys.do(t.Context(), w.name+" with an event", raising); db.pg != nil && (err == nil || !strings.Contains(err.Error(), "aborted")) {
			t.Errorf("a refusal with an event: error %v", err)
		}
		if _, _, err := keys.do(t.Context(), w.name+" ignored", exists(200)); (err == nil) != (db.my != nil) || errors.Is(err, inbox.ErrDatabase) {
			t.Errorf("a success: error %v", err)
		}
		statuses := make(chan int, 2)
		call := func(work func(context.Context, execer, *writer.Unit) (*idempotency.Response, error)) {
			r, _, err := keys.do(t.Context(), w.name+" contended", work)
			if err != nil {
				t.Error(err)
				r = &idempotency.Response{}
			}
			statuses <- r.Status
		}
		call(func(ctx context.Context, tx execer, _ *writer.Unit) (*idempotency.Response, error) {
			go call(func(context.Context, execer, *writer.Unit) (*idempotency.Response, error) {
				return &idempotency.Response{Status: 200}, nil
			})
			return exists(409)(ctx, tx, nil)
		})
		if a, b := <-statuses, <-statuses; a != b {
			t.Errorf("calls with one key get %d and %d", a, b)
		}
	})
}

// Of a connection that died a moment ago a driver learns when it sends BEGIN.
func TestKeyOnADeadConnection(t *testing.T) {
	db, ok := newDatabase(t, servers[0]), &idempotency.Response{Status: 200}
	for _, w := range db.ways() {
		keys := w.open(t, sql.LevelDefault).keys(t)
		for range 2 {
			_, _, err := keys.do(t.Context(), w.name, func(context.Context, execer, *writer.Unit) (*idempotency.Response, error) { return ok, nil })
			testenv.Must(t, err)
			db.exec(t, "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
		}
	}
}

// A function that commits leaves a key without a response. It and its repeats are told so; no other attempt helps.
func TestFunctionThatCommits(t *testing.T) {
	onEachWay(t, func(t *testing.T, _ *database, w way) {
		keys := w.open(t, sql.LevelDefault).keys(t)
		for _, want := range []string{"leave the transaction open", "has committed without one"} {
			err := keys.doAndCommit(t.Context(), w.name)
			if !errors.Is(err, writer.ErrNoTransaction) || errors.Is(err, inbox.ErrDatabase) || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v", err)
			}
		}
	})
}

// deadlock is an error after which the transaction is run again.
func (db *database) deadlock() string {
	if db.my != nil {
		return "SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213, MESSAGE_TEXT = 'Deadlock found'"
	}
	return "DO $$ BEGIN RAISE 'deadlock' USING ERRCODE = '40P01'; END $$"
}

func (db *database) hourBefore(column string) string {
	if db.my != nil {
		return column + " - INTERVAL 1 HOUR"
	}
	return column + " - interval '1 hour'"
}

func TestInvalidKeys(t *testing.T) {
	db := writer.SQL(new(sql.DB), writer.Postgres)
	events, err := writer.New(writer.Postgres)
	testenv.Must(t, err)
	keys, err := idempotency.New(db, events)
	testenv.Must(t, err)
	other, err := writer.New(writer.MySQL)
	testenv.Must(t, err)
	for _, w := range []*writer.Writer{nil, other} {
		if _, err := idempotency.New(db, w); err == nil || !strings.Contains(err.Error(), "give New one") {
			t.Errorf("writer %v: %v", w, err)
		}
	}
	long := strings.Repeat("k", idempotency.MaxKey+1)
	for _, k := range []idempotency.Key{{}, {Scope: "a"}, {Key: "k"}, {Scope: "a", Key: long}, {Scope: long, Key: "k"}, {Scope: "a\x00", Key: "k"}, {Scope: "a", Key: "\xff"}} {
		if _, _, err := keys.Do(t.Context(), k, [32]byte{}, nil); !errors.Is(err, idempotency.ErrInvalidKey) {
			t.Errorf("%.20q %.20q: %v", k.Scope, k.Key, err)
		}
	}
	for name, o := range map[string]idempotency.Option{
		"table": idempotency.WithTable("a.b.c.d"), "wait": idempotency.WithWait(0), "limit": idempotency.WithMaxRequest(-1), "handler": idempotency.WithErrorHandler(nil),
		"stored": idempotency.WithStored(nil), "response": idempotency.WithMaxResponse(-1),
	} {
		if _, err := idempotency.New(db, events, o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// request is sent to a server with the middleware.
type request struct {
	caller, host, path, body string
	keys                     []string
}

func TestMiddleware(t *testing.T) {
	onEach(t, func(t *testing.T, db *database) {
		var calls atomic.Int64
		var retried atomic.Bool
		var hooks []string
		var failed atomic.Value // the text of an error, which clients do not get
		respond := idempotency.WithErrorHandler(func(w http.ResponseWriter, _ *http.Request, err error) {
			failed.Store(err.Error())
			idempotency.Respond(w, err)
		})
		handler := db.ways()[0].open(t, sql.LevelDefault).keys(t, idempotency.WithMaxRequest(300), respond).serve(func(w http.ResponseWriter, r *http.Request, tx execer, u *writer.Unit) error {
			calls.Add(1)
			if got, want := idempotency.Caller(r.Context()), r.Header.Get("Caller"); got != want {
				t.Errorf("caller %q, want %q", got, want)
			}
			u.AfterCommit(func(context.Context) error { hooks = append(hooks, "committed"); return nil })
			u.AfterRollback(func(context.Context) error { hooks = append(hooks, "rolled back"); return nil })
			testenv.Must(t, tx(r.Context(), "INSERT INTO effects VALUES ('x')"))
			if r.URL.Path == "/retried" && !retried.Swap(true) {
				return tx(r.Context(), db.deadlock())
			}
			write(t, w, r)
			if r.URL.Path == "/error" {
				return errors.New("sold out")
			}
			return nil
		})
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Outer", "kept")
			w.Header().Set("Vary", "Origin")
			w.Header().Set("Unwanted", "x")
			switch r.URL.Path {
			case "/form":
				_ = r.FormValue("x")
			case "/read":
				_, _ = io.ReadAll(r.Body)
			}
			defer func() { // net/http would log the panic
				if v := recover(); v != nil {
					w.WriteHeader(599)
				}
			}()
			http.StripPrefix(map[bool]string{true: "/v1"}[strings.HasPrefix(r.URL.Path, "/v1/")], handler).ServeHTTP(w, r)
		}))
		t.Cleanup(server.Close)
		first := request{path: "/created", body: "1", keys: []string{`"k1"`}}
		for _, step := range []struct {
			request
			status   int
			replayed bool
			called   bool
			body     string
		}{
			{first, 201, false, true, "created 1"},
			{first, 201, true, false, "created 1"},
			{request{path: "/created", body: "1", keys: []string{`k1`}}, 201, true, false, "created 1"},
			{request{path: "/created", body: "2", keys: []string{`"k1"`}}, 422, false, false, "another request"},
			{request{path: "/created?a", body: "1", keys: []string{`"k1"`}}, 422, false, false, "another request"},
			{request{path: "/v1/created", body: "1", keys: []string{`"k1"`}}, 422, false, false, "another request"},
			{request{path: "/created", body: "1", keys: []string{`"k1"`}, host: "globex"}, 422, false, false, "another request"},
			{request{path: "/created", body: "1", keys: []string{`"k1"`}, caller: "bob"}, 201, false, true, "created 1"},
			{request{path: "/created", caller: "nobody", keys: []string{`"k1"`}}, 403, false, false, "caller"},
			{request{path: "/created", caller: "no token", keys: []string{`"k1"`}}, 401, false, false, "no valid credentials"},
			{request{path: "/created"}, 400, false, false, "missing"},
			{request{path: "/created", keys: []string{"a", "b"}}, 400, false, false, "one quoted string"},
			{request{path: "/created", keys: []string{`""`}}, 400, false, false, "one quoted string"},
			{request{path: "/created", keys: []string{`"a`}}, 400, false, false, "one quoted string"},
			{request{path: "/created", keys: []string{`"a"; b`}}, 400, false, false, "one quoted string"},
			{request{path: "/created", keys: []string{strings.Repeat("k", 256)}}, 400, false, false, "limit is 255"},
			{request{path: "/created", keys: []string{`"a \"quoted\" \\ key"`}}, 201, false, true, "created "},
			{request{path: "/created", body: strings.Repeat("x", 301), keys: []string{"long"}}, 413, false, false, "more than 300 bytes: send less"},
			{request{path: "/form", body: "x=1", keys: []string{"form"}}, 500, false, false, "read before the middleware"},
			{request{path: "/form", body: upload, keys: []string{"form"}}, 500, false, false, "read before the middleware"},
			{request{path: "/read", body: "1", keys: []string{"read"}}, 500, false, false, "read before the middleware"},
			{request{path: "/uploaded", body: upload, keys: []string{"uploaded"}}, 200, false, true, ""},
			{request{path: "/refused", keys: []string{"refused"}}, 409, false, true, "refused"},
			{request{path: "/refused", keys: []string{"refused"}}, 409, true, false, "refused"},
			{request{path: "/failed", keys: []string{"failed"}}, 500, false, true, "failed"},
			{request{path: "/failed", keys: []string{"failed"}}, 500, false, true, "failed"},
			{request{path: "/panics", keys: []string{"panics"}}, 599, false, true, ""},
			{request{path: "/panics", keys: []string{"panics"}}, 599, false, true, ""},
			{request{path: "/status?0", keys: []string{"0"}}, 599, false, true, ""},
			{request{path: "/status?99", keys: []string{"99"}}, 599, false, true, ""},
			{request{path: "/status?1000", keys: []string{"1000"}}, 599, false, true, ""},
			{request{path: "/status?101", keys: []string{"101"}}, 500, false, true, "do not switch protocols"},
			{request{path: "/status?103", keys: []string{"103"}}, 200, false, true, ""},
			{request{path: "/large", keys: []string{"large"}}, 500, false, true, "too large"},
			{request{path: "/flushed", keys: []string{"flushed"}}, 500, false, true, "do not flush"},
			{request{path: "/hijacked", keys: []string{"hijacked"}}, 500, false, true, "do not hijack"},
			{request{path: "/empty", keys: []string{"empty"}}, 200, false, true, ""},
			{request{path: "/empty", keys: []string{"empty"}}, 200, true, false, ""},
			{request{path: "/encoded", keys: []string{"encoded"}}, 200, false, true, "<html>"},
			{request{path: "/encoded", keys: []string{"encoded"}}, 200, true, false, "<html>"},
			{request{path: "/retried", keys: []string{"retried"}}, 200, false, true, "once"},
			{request{path: "/error", keys: []string{"error"}}, 500, false, true, "sold out"},
			{request{path: "/error", keys: []string{"error"}}, 500, false, true, "sold out"},
		} {
			before, effects := calls.Load(), db.count(t, "effects")
			failed.Store("")
			hooks = nil
			r, body := send(t, server.URL, step.request)
			name := step.path + " " + strings.Join(step.keys, " ")
			if r.StatusCode != step.status || (r.Header.Get(idempotency.HeaderReplayed) != "") != step.replayed || !strings.Contains(body+failed.Load().(string), step.body) {
				t.Errorf("%s: status %d, headers %v, body %s, error %s", name, r.StatusCode, r.Header, body, failed.Load())
			}
			if (calls.Load() != before) != step.called || (db.count(t, "effects") != effects) != (step.called && step.status < 500) {
				t.Errorf("%s: %d calls, %d effects more", name, calls.Load()-before, db.count(t, "effects")-effects)
			}
			var want []string
			if step.path == "/retried" {
				want = append(want, "rolled back")
			}
			if step.called {
				want = append(want, map[bool]string{true: "committed", false: "rolled back"}[step.status < 500])
			}
			if !slices.Equal(hooks, want) {
				t.Errorf("%s: hooks %q, want %q", name, hooks, want)
			}
			if want, ok := map[string]string{"/created": "text/plain; charset=utf-8", "/encoded": ""}[step.path]; ok && r.StatusCode < 300 && r.Header.Get("Content-Type") != want {
				t.Errorf("%s: headers %v", name, r.Header)
			}
			if cookie := r.Header.Get("Set-Cookie") != ""; cookie != (step.called && step.status == 201) || r.Header.Get("Outer") != "kept" || r.Header.Get("Too-Late") != "" {
				t.Errorf("%s: headers %v", name, r.Header)
			}
			if vary := strings.Join(r.Header["Vary"], ", "); step.path == "/created" && step.status == 201 && (vary != "Origin, Accept" || r.Header.Get("Unwanted") != "") {
				t.Errorf("%s: headers %v", name, r.Header)
			}
			if _, err := os.Stat(body); step.path == "/uploaded" && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("file %s of an upload is left: %v", body, err)
			}
		}
		cutShort(t, server.Listener.Addr().String())
		db.exec(t, "DROP TABLE idempotency_keys")
		if r, body := send(t, server.URL, first); r.StatusCode != http.StatusServiceUnavailable || r.Header.Get("Retry-After") == "" || strings.Contains(body, "idempotency_keys") {
			t.Errorf("without the table: status %d, body %s", r.StatusCode, body)
		}
	})
}

// upload is a form with a file.
const upload = "--x\r\nContent-Disposition: form-data; name=\"f\"; filename=\"f\"\r\n\r\na\r\n--x--\r\n"

// Without a key nothing is stored, and everything else is as with one.
func TestOptionalKey(t *testing.T) {
	onEach(t, func(t *testing.T, db *database) {
		handler := db.ways()[0].open(t, sql.LevelDefault).keys(t, idempotency.WithOptionalKey()).serve(func(w http.ResponseWriter, r *http.Request, tx execer, _ *writer.Unit) error {
			testenv.Must(t, tx(r.Context(), "INSERT INTO effects VALUES ('x')"))
			status, err := strconv.Atoi(r.URL.RawQuery)
			testenv.Must(t, err)
			switch status {
			case http.StatusConflict:
				_ = tx(r.Context(), "INSERT INTO stock VALUES (1, 0)") // exists
			case http.StatusAccepted:
				testenv.Must(t, tx(r.Context(), "ROLLBACK")) // as a deadlock does whose error is not returned
			}
			w.WriteHeader(status)
			return nil
		})
		server := httptest.NewServer(handler)
		t.Cleanup(server.Close)
		for _, c := range []struct{ sent, status, effects int }{
			{201, 201, 1}, {409, 409, map[bool]int{true: 1}[db.my != nil]}, {429, 429, 0}, {500, 500, 0}, {202, 500, 0},
		} {
			for range 2 {
				before := db.count(t, "effects")
				r, _ := send(t, server.URL, request{path: "/?" + strconv.Itoa(c.sent)})
				if n := db.count(t, "effects") - before; r.StatusCode != c.status || r.Header.Get(idempotency.HeaderReplayed) != "" || n != c.effects {
					t.Errorf("%d: status %d, headers %v, %d effects", c.sent, r.StatusCode, r.Header, n)
				}
			}
		}
		if n := db.count(t, "idempotency_keys"); n != 0 {
			t.Errorf("%d keys", n)
		}
		if r, _ := send(t, server.URL, request{path: "/?201", keys: []string{""}}); r.StatusCode != http.StatusBadRequest {
			t.Errorf("an empty key: status %d", r.StatusCode)
		}
	})
}

func TestMaxResponse(t *testing.T) {
	onEach(t, func(t *testing.T, db *database) {
		limit := 2 * idempotency.MaxBody
		server := httptest.NewServer(db.ways()[0].open(t, sql.LevelDefault).keys(t, idempotency.WithMaxResponse(limit)).serve(func(w http.ResponseWriter, r *http.Request, _ execer, _ *writer.Unit) error {
			size, err := strconv.Atoi(r.URL.RawQuery)
			testenv.Must(t, err)
			_, _ = w.Write(make([]byte, size))
			return nil
		}))
		t.Cleanup(server.Close)
		for size, status := range map[int]int{limit: 200, limit + 1: 500} {
			for again := range 2 {
				r, body := send(t, server.URL, request{path: "/?" + strconv.Itoa(size), keys: []string{strconv.Itoa(size)}})
				replayed := r.Header.Get(idempotency.HeaderReplayed) != ""
				if r.StatusCode != status || status == 200 && len(body) != size || replayed != (status == 200 && again == 1) {
					t.Errorf("%d bytes: status %d, %d bytes, replayed %v", size, r.StatusCode, len(body), replayed)
				}
			}
		}
	})
}

// write writes the response that the path asks for.
func write(t *testing.T, w http.ResponseWriter, r *http.Request) {
	t.Helper()
	switch r.URL.Path {
	case "/created":
		body, err := io.ReadAll(r.Body)
		testenv.Must(t, err)
		w.Header().Set("Set-Cookie", "session=secret")
		w.Header().Add("Vary", "Accept")
		w.Header().Del("Unwanted")
		w.WriteHeader(http.StatusCreated)
		w.Header().Set("Too-Late", "not sent")
		_, _ = io.WriteString(w, "created "+string(body))
	case "/uploaded":
		testenv.Must(t, r.ParseMultipartForm(0)) // nothing in memory
		file, _, err := r.FormFile("f")
		testenv.Must(t, err)
		_, _ = io.WriteString(w, file.(*os.File).Name())
		testenv.Must(t, file.Close())
	case "/status":
		status, err := strconv.Atoi(r.URL.RawQuery)
		testenv.Must(t, err)
		w.WriteHeader(status)
	case "/refused":
		http.Error(w, "refused", http.StatusConflict)
	case "/failed":
		http.Error(w, "failed", http.StatusInternalServerError)
	case "/panics":
		panic("out of tea")
	case "/large":
		_, _ = w.Write(make([]byte, idempotency.MaxBody))
		_, _ = w.Write([]byte("x"))
	case "/flushed":
		_ = http.NewResponseController(w).Flush()
	case "/encoded": // whose type net/http does not guess
		w.Header().Set("Content-Encoding", "x")
		_, _ = io.WriteString(w, "<html>")
	case "/retried":
		_, _ = io.WriteString(w, "once")
	case "/error":
		w.WriteHeader(http.StatusCreated) // not sent
	case "/hijacked":
		_, _, _ = http.NewResponseController(w).Hijack()
	}
}

func send(t *testing.T, url string, q request) (r *http.Response, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+q.path, strings.NewReader(q.body))
	testenv.Must(t, err)
	req.Header.Set("Caller", "alice")
	req.Host = q.host // "" is that of url
	switch q.path {
	case "/form", "/uploaded":
		req.Header.Set("Content-Type", map[bool]string{true: "multipart/form-data; boundary=x", false: "application/x-www-form-urlencoded"}[q.body == upload])
	}
	if q.caller != "" {
		req.Header.Set("Caller", q.caller)
	}
	for _, k := range q.keys {
		req.Header.Add(idempotency.HeaderKey, k)
	}
	r, err = http.DefaultClient.Do(req)
	testenv.Must(t, err)
	all, err := io.ReadAll(r.Body)
	testenv.Must(t, errors.Join(err, r.Body.Close()))
	return r, string(all)
}

// cutShort sends a request whose body ends early: the answer is 400, and the handler is not called.
func cutShort(t *testing.T, addr string) {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	testenv.Must(t, err)
	defer func() { _ = conn.Close() }()
	_, err = io.WriteString(conn, "POST /created HTTP/1.1\r\nHost: x\r\nCaller: alice\r\nIdempotency-Key: short\r\nContent-Length: 10\r\n\r\nhalf")
	testenv.Must(t, err)
	testenv.Must(t, conn.(*net.TCPConn).CloseWrite())
	r, err := http.ReadResponse(bufio.NewReader(conn), nil)
	testenv.Must(t, err)
	if r.StatusCode != http.StatusBadRequest {
		t.Errorf("cut short: status %d", r.StatusCode)
	}
	testenv.Must(t, r.Body.Close())
}
