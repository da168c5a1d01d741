package writer_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/cdc-relay/cdc-relay/writer"
)

var errRefused = errors.New("refused")

// types returns the event types of the rows that a recorder got.
func (r *recorder) types() (types []string) {
	for _, s := range r.statements {
		for i := 3; i < len(s.args); i += columns {
			types = append(types, s.args[i].(string))
		}
	}
	return types
}

// rename adds a suffix to the types.
func rename(suffix string) writer.Interceptor {
	return func(_ context.Context, events []*writer.Event) ([]*writer.Event, error) {
		for _, e := range events {
			e.Type += suffix
		}
		return events, nil
	}
}

func TestInterceptors(t *testing.T) {
	without := func(_ context.Context, events []*writer.Event) ([]*writer.Event, error) {
		return slices.DeleteFunc(events, func(e *writer.Event) bool { return e.Type == "a" }), nil
	}
	double := func(_ context.Context, events []*writer.Event) ([]*writer.Event, error) {
		var more []*writer.Event
		for _, e := range events {
			added := newEvent()
			added.Type = e.Type + "'"
			more = append(more, e, added)
		}
		return more, nil
	}
	for name, tt := range map[string]struct {
		events string // a letter is the type of an event
		chain  []writer.Interceptor
		want   []string
		err    string
	}{
		"in order":                        {"ab", []writer.Interceptor{rename("1"), rename("2")}, []string{"a12", "b12"}, ""},
		"one is left out":                 {"ab", []writer.Interceptor{without}, []string{"b"}, ""},
		"the only one is left out":        {"a", []writer.Interceptor{without, rename("1")}, nil, ""},
		"one is added to one":             {"b", []writer.Interceptor{double}, []string{"b", "b'"}, ""},
		"the next one sees what is added": {"bb", []writer.Interceptor{double, rename("1")}, []string{"b1", "b'1", "b1", "b'1"}, ""},
		"none":                            {"ab", []writer.Interceptor{}, []string{"a", "b"}, ""},
		"an error":                        {"ab", []writer.Interceptor{func(context.Context, []*writer.Event) ([]*writer.Event, error) { return nil, errRefused }, rename("1")}, nil, "refused"},
		"an invalid event is made": {
			"ab",
			[]writer.Interceptor{rename("\x00")},
			nil,
			"event 0: Type contains U+0000 (byte 1), which not every database stores in text: remove it",
		},
		"nil is added": {"b", []writer.Interceptor{func(_ context.Context, events []*writer.Event) ([]*writer.Event, error) {
			return append(events, nil), nil
		}}, nil, "event 1 is nil: pass a pointer to an Event"},
		"nil is passed": {"b-", []writer.Interceptor{rename("1")}, nil, "event 1 is nil: pass a pointer to an Event"},
	} {
		t.Run(name, func(t *testing.T) {
			var events []*writer.Event
			for letter := range strings.SplitSeq(tt.events, "") {
				e := newEvent()
				e.Type = letter
				if letter == "-" {
					e = nil
				}
				events = append(events, e)
			}
			tx, seen := &recorder{}, []string(nil)
			observer := writer.WithObserver(func(_ context.Context, written []*writer.Event) {
				for _, e := range written {
					seen = append(seen, e.Type)
				}
			})
			err := newWriter(t, writer.WithInterceptor(tt.chain...), observer).Append(t.Context(), tx, events...)
			if got := fmt.Sprint(err); err != nil && got != tt.err || err == nil && tt.err != "" {
				t.Errorf("error %v, want %q", err, tt.err)
			}
			if got := tx.types(); !slices.Equal(got, tt.want) || !slices.Equal(seen, tt.want) {
				t.Errorf("wrote %v, the observer got %v, want %v", got, seen, tt.want)
			}
		})
	}
}

// A transaction that is run again writes the same events: the caller's keep their content, and have their IDs already.
func TestInterceptorsGetCopies(t *testing.T) {
	w := newWriter(t, writer.WithInterceptor(func(_ context.Context, events []*writer.Event) ([]*writer.Event, error) {
		for _, e := range events {
			if e.ID == uuid.Nil || e.OccurredAt.IsZero() {
				return nil, errors.New("an event without ID or time")
			}
			e.Type += "!"
			e.Headers["a"] = "changed"
			e.Payload[0] = '['
		}
		return events, nil
	}))
	e := newEvent()
	e.Headers = map[string]string{"a": "1"}
	var attempts [][]any
	for range 2 {
		tx := &recorder{}
		mustAppend(t, w, tx, e)
		attempts = append(attempts, tx.statements[0].args)
	}
	if !reflect.DeepEqual(attempts[0], attempts[1]) {
		t.Errorf("the second attempt wrote\n%v\nthe first\n%v", attempts[1], attempts[0])
	}
	if e.Type != "OrderPlaced" || string(e.Payload) != "{}" || !maps.Equal(e.Headers, map[string]string{"a": "1"}) {
		t.Errorf("the caller's event is now %+v", e)
	}
}

func TestHeadersAndTenantOfTheContext(t *testing.T) {
	type key struct{}
	common := map[string]string{"traceparent": "00-1", "operator": "system"}
	w := newWriter(t,
		writer.WithHeaders(func(ctx context.Context) map[string]string {
			if ctx.Value(key{}) == nil {
				return nil
			}
			return common
		}),
		writer.WithTenant(func(ctx context.Context) string { tenant, _ := ctx.Value(key{}).(string); return tenant }),
	)
	const headers, tenant = 10, 4
	for name, tt := range map[string]struct {
		ctx           context.Context
		change        func(*writer.Event)
		headers, want any
	}{
		"set":       {context.WithValue(t.Context(), key{}, "acme"), func(*writer.Event) {}, `{"operator":"system","traceparent":"00-1"}`, "acme"},
		"not set":   {t.Context(), func(*writer.Event) {}, nil, nil},
		"overruled": {context.WithValue(t.Context(), key{}, "acme"), func(e *writer.Event) { e.Headers, e.TenantID = map[string]string{"operator": "ada"}, "own" }, `{"operator":"ada","traceparent":"00-1"}`, "own"},
	} {
		t.Run(name, func(t *testing.T) {
			tx, e := &recorder{}, newEvent()
			tt.change(e)
			before := maps.Clone(e.Headers)
			if err := w.Append(tt.ctx, tx, e); err != nil {
				t.Fatal(err)
			}
			if args := tx.statements[0].args; args[headers] != tt.headers || args[tenant] != tt.want {
				t.Errorf("headers %v, tenant %v", args[headers], args[tenant])
			}
			if !maps.Equal(e.Headers, before) || len(common) != 2 {
				t.Errorf("the caller's headers are now %v, those of the source %v", e.Headers, common)
			}
		})
	}
}

// Observers see the rows that were written, and only those.
func TestObserver(t *testing.T) {
	for name, tt := range map[string]struct {
		events int
		err    error
		want   int
	}{
		"one":                {1, nil, 1},
		"several":            {5000, nil, 5000},
		"none":               {0, nil, 0},
		"a failure":          {1, errRefused, 0},
		"a failure, several": {2, errRefused, 0},
	} {
		t.Run(name, func(t *testing.T) {
			calls, rows := 0, 0
			w := newWriter(t, writer.WithObserver(func(_ context.Context, written []*writer.Event) {
				calls++
				rows += len(written)
			}))
			err := w.Append(t.Context(), &recorder{err: tt.err}, newEvents(tt.events)...)
			if !errors.Is(err, tt.err) || rows != tt.want || calls > 1 {
				t.Errorf("%d calls with %d rows, error %v", calls, rows, err)
			}
		})
	}
}

func TestClockAndIDs(t *testing.T) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	id := uuid.MustParse("01961b2c-5d6e-7f00-8000-000000000001")
	w := newWriter(t, writer.WithClock(func() time.Time { return at }), writer.WithIDs(func() (uuid.UUID, error) { return id, nil }))
	tx := &recorder{}
	mustAppend(t, w, tx, newEvent())
	if args := tx.statements[0].args; args[0] != id.String() || args[12] != at {
		t.Errorf("ID %v, time %v", args[0], args[12])
	}
	w = newWriter(t, writer.WithIDs(func() (uuid.UUID, error) { return uuid.Nil, errRefused }))
	if err := w.Append(t.Context(), tx, newEvent()); !errors.Is(err, errRefused) || len(tx.statements) != 1 {
		t.Errorf("error %v, %d statements", err, len(tx.statements))
	}
}

// state is an error as the drivers of PostgreSQL have it, number one of MySQL's.
type state string

func (s state) Error() string    { return "state " + string(s) }
func (s state) SQLState() string { return string(s) }

type number struct{ Number uint16 }

func (n *number) Error() string { return fmt.Sprint("number ", n.Number) }

func TestRetryable(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{errRefused, false},
		{state("40001"), true},
		{state("40P01"), true},
		{state("23505"), false},
		{&number{1213}, true},
		{&number{1205}, true},
		{&number{1020}, true},
		{&number{1062}, false},
		{newWriter(t).InsertError(1, state("40001")), true},
		{fmt.Errorf("save: %w", errors.Join(errRefused, &number{1213})), true},
		{errors.Join(errRefused, errRefused), false},
	} {
		if got := writer.Retryable(tt.err); got != tt.want {
			t.Errorf("%v: %t", tt.err, got)
		}
	}
}

func ExampleWithInterceptor() {
	audit := func(_ context.Context, events []*writer.Event) ([]*writer.Event, error) {
		for _, e := range events {
			if e.Type == "OrderPlaced" {
				copied := *e
				copied.ID = uuid.NewSHA1(e.ID, []byte("audit")) // the same in each attempt
				copied.Topic = "audit"
				events = append(events, &copied)
			}
		}
		return events, nil
	}
	events, err := writer.New(writer.Postgres, writer.WithInterceptor(audit),
		writer.WithObserver(func(_ context.Context, events []*writer.Event) {
			for _, e := range events {
				fmt.Printf("%s to %q\n", e.Type, e.Topic)
			}
		}))
	if err != nil {
		fmt.Println(err)
		return
	}
	event, _ := writer.JSON("Order", "o-1", "OrderPlaced", Order{ID: "o-1", Total: 1999})
	fmt.Println(events.Append(context.Background(), &recorder{}, event))
	// Output:
	// OrderPlaced to ""
	// OrderPlaced to "audit"
	// <nil>
}

type operator struct{}

// The trace context and the operator come from the request's context. With OpenTelemetry the first are three lines:
//
//	carrier := propagation.MapCarrier{}
//	propagation.TraceContext{}.Inject(ctx, carrier)
//	return carrier
//
// The global propagator would also send baggage, which may be confidential.
func ExampleWithHeaders() {
	events, _ := writer.New(writer.Postgres,
		writer.WithHeaders(func(ctx context.Context) map[string]string {
			name, _ := ctx.Value(operator{}).(string)
			return map[string]string{"operator": name}
		}),
		writer.WithObserver(func(_ context.Context, written []*writer.Event) { fmt.Println(written[0].Headers) }))
	event, _ := writer.JSON("Order", "o-1", "OrderPlaced", Order{ID: "o-1", Total: 1999})
	ctx := context.WithValue(context.Background(), operator{}, "ada")
	fmt.Println(events.Append(ctx, &recorder{}, event))
	// Output:
	// map[operator:ada]
	// <nil>
}
