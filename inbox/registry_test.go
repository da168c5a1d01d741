package inbox_test

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/inbox"
	"github.com/cdc-relay/cdc-relay/writer"
)

// tx stands for a transaction: the registry only passes it on.
type tx struct{}

// noted returns a handler that adds its name to what was called.
func noted(called *[]string, name string, err error) inbox.Handler[tx] {
	return func(context.Context, tx, *writer.Unit, *inbox.Message) error {
		*called = append(*called, name)
		return err
	}
}

func TestRegistryFindsTheHandler(t *testing.T) {
	var called []string
	var r inbox.Registry[tx]
	for _, k := range [][2]string{{"Order", "Placed"}, {"", "Placed"}, {"Order", ""}} {
		must(t, r.On(k[0], k[1], noted(&called, k[0]+"/"+k[1], nil)))
	}
	must(t, r.On("Invoice", "Sent", func(context.Context, tx, *writer.Unit, *inbox.Message) error { return nil }))
	missing := &inbox.Message{AggregateType: "Invoice", Type: "Paid", Topic: "invoices", Offset: 3}
	err := r.Handle(t.Context(), tx{}, nil, missing)
	if want := `record invoices[0]@3: no handler for event type "Paid" of aggregate type "Invoice": register one with On, or one for all others with Default`; err == nil || err.Error() != want || !errors.Is(err, inbox.ErrNoHandler) || !inbox.IsPermanent(err) {
		t.Errorf("without a handler: %v", err)
	}
	r.Default(noted(&called, "default", nil))
	for _, m := range []*inbox.Message{
		{AggregateType: "Order", Type: "Placed"},
		{AggregateType: "Cart", Type: "Placed"},
		{AggregateType: "Order", Type: "Paid"},
		{AggregateType: "Invoice", Type: "Sent"},
		{Type: "Placed"},
		{AggregateType: "Order"},
		missing,
		{},
	} {
		must(t, r.Handle(t.Context(), tx{}, nil, m))
	}
	if want := []string{"Order/Placed", "/Placed", "Order/", "/Placed", "Order/", "default", "default"}; !slices.Equal(called, want) {
		t.Errorf("called %q", called)
	}
}

func TestRegistryRefuses(t *testing.T) {
	var r inbox.Registry[tx]
	h := noted(new([]string), "", nil)
	must(t, r.On("Order", "Placed", h))
	if err := r.On("Order", "Placed", h); !errors.Is(err, inbox.ErrDuplicateHandler) || !strings.Contains(err.Error(), "use All to run several") {
		t.Errorf("twice: %v", err)
	}
	for name, err := range map[string]error{
		"any of any": r.On("", "", h), "nil": r.On("Order", "Paid", nil),
		"nil with a type": inbox.OnJSON[int](&r, "Order", "Paid", (func(context.Context, tx, *writer.Unit, *inbox.Message, int) error)(nil)),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestInterceptorsRunInOrderAndReverse(t *testing.T) {
	var called []string
	var r inbox.Registry[tx]
	around := func(name string) inbox.Interceptor[tx] {
		return func(next inbox.Handler[tx]) inbox.Handler[tx] {
			return func(ctx context.Context, tx tx, u *writer.Unit, m *inbox.Message) error {
				called = append(called, "before "+name)
				defer func() { called = append(called, "after "+name) }()
				return next(ctx, tx, u, m)
			}
		}
	}
	r.Use(around("a"), around("b"))
	must(t, r.On("", "panics", func(context.Context, tx, *writer.Unit, *inbox.Message) error { panic("out of tea") }))
	r.Default(noted(&called, "handler", nil))
	must(t, r.Handle(t.Context(), tx{}, nil, &inbox.Message{}))
	if want := []string{"before a", "before b", "handler", "after b", "after a"}; !slices.Equal(called, want) {
		t.Errorf("called %q", called)
	}
	var p *inbox.PanicError
	if err := r.Handle(t.Context(), tx{}, nil, &inbox.Message{Type: "panics"}); !errors.As(err, &p) || !strings.Contains(err.Error(), "registry_test.go") {
		t.Errorf("panic: %v", err)
	}
	r.Use(func(inbox.Handler[tx]) inbox.Handler[tx] { panic("out of milk") })
	if err := r.Handle(t.Context(), tx{}, nil, &inbox.Message{}); !errors.As(err, &p) || p.Value != "out of milk" {
		t.Errorf("panic of an interceptor: %v", err)
	}
}

// Each handler runs, and every error is returned.
func TestAllJoinsErrors(t *testing.T) {
	var called []string
	first, second := errors.New("first"), errors.New("second")
	err := inbox.All(noted(&called, "a", first), noted(&called, "b", nil), noted(&called, "c", second),
		func(context.Context, tx, *writer.Unit, *inbox.Message) error { panic(1) })(t.Context(), tx{}, nil, &inbox.Message{})
	var p *inbox.PanicError
	if !errors.Is(err, first) || !errors.Is(err, second) || !errors.As(err, &p) || len(called) != 3 {
		t.Errorf("called %q, error %v", called, err)
	}
	if inbox.All[tx]()(t.Context(), tx{}, nil, nil) != nil {
		t.Error("none fail")
	}
}

func TestValuesAreDecoded(t *testing.T) {
	type order struct{ Total int }
	var r inbox.Registry[tx]
	var got []order
	must(t, inbox.OnJSON(&r, "Order", "Placed", func(_ context.Context, _ tx, _ *writer.Unit, _ *inbox.Message, o order) error {
		got = append(got, o)
		return nil
	}))
	must(t, r.Handle(t.Context(), tx{}, nil, &inbox.Message{AggregateType: "Order", Type: "Placed", Value: []byte(`{"total": 3, "new": 1}`)}))
	if len(got) != 1 || got[0].Total != 3 {
		t.Errorf("got %v", got)
	}
	for value, want := range map[string]string{"": "is null (a tombstone)", `{"total": "secret"}`: "is not JSON of a inbox_test.order", "x": "is not JSON"} {
		m := &inbox.Message{AggregateType: "Order", Type: "Placed", Value: []byte(value), Topic: "orders"}
		if value == "" {
			m.Value = nil
		}
		err := r.Handle(t.Context(), tx{}, nil, m)
		if !inbox.IsPermanent(err) || !strings.Contains(err.Error(), "record orders[0]@0: the value "+want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", value, err)
		}
	}
}

func TestReadCloudEvents(t *testing.T) {
	m := &inbox.Message{Headers: []inbox.Header{
		{"ce_id", []byte("1")},
		{"ce_source", []byte("/orders")},
		{"ce_type", []byte("Placed")},
		{"ce_aggregatetype", []byte("Order")},
		{"ce_subject", []byte("o-1")},
		{"ce_tenant", []byte("acme")},
		{"ce_time", []byte("2026-11-21T11:12:58.594041Z")},
		{"trace", nil},
		{"trace", nil},
	}}
	must(t, m.ReadCloudEvents())
	got := []string{m.ID, m.Source, m.Type, m.AggregateType, m.Subject, m.TenantID, m.Time.Format("05.000000")}
	if want := []string{"1", "/orders", "Placed", "Order", "o-1", "acme", "58.594041"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	for key, want := range map[string]string{"ce_id": "/orders", "ce_source": "1"} {
		twice := &inbox.Message{Headers: append(slices.Clone(m.Headers), inbox.Header{Key: key})}
		if err := twice.ReadCloudEvents(); !errors.Is(err, inbox.ErrInvalidMessage) || !strings.Contains(err.Error(), key+" occurs twice") || twice.Source+twice.ID != want || twice.Type != m.Type {
			t.Errorf("%s: %+v, %v", key, twice, err)
		}
	}
	var r inbox.Registry[tx]
	r.Default(noted(new([]string), "", nil))
	for _, c := range []struct{ key, value, want string }{
		{"ce_time", "", "ce_time occurs twice"},
		{"ce_subject", "", "ce_subject occurs twice"},
		{"ce_type", "", "ce_type occurs twice"},
		{"ce_time", "2026-11-27 15:00:00", "not a time"},
		{"ce_time", "2026-11-21T11:12:58+24:00", "not a time"},
	} {
		headers := slices.Clone(m.Headers)
		if c.value != "" {
			headers = slices.DeleteFunc(headers, func(h inbox.Header) bool { return h.Key == c.key })
		}
		bad := &inbox.Message{Headers: append(headers, inbox.Header{Key: c.key, Value: []byte(c.value)})}
		must(t, bad.ReadCloudEvents())
		if err := r.Handle(t.Context(), tx{}, nil, bad); !inbox.IsPermanent(err) || errors.Is(err, inbox.ErrInvalidMessage) || !strings.Contains(err.Error(), c.want) || bad.ID != "1" {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestSourceThatPanics(t *testing.T) {
	in, err := inbox.New(writer.SQL(new(sql.DB), writer.Postgres), "c", inbox.WithSource(func(m *inbox.Message) string { return string(m.Headers[0].Value) }))
	must(t, err)
	_, err = in.Handle(t.Context(), &inbox.Message{ID: "1"}, nil)
	var p *inbox.PanicError
	if !errors.As(err, &p) || !errors.Is(err, inbox.ErrInvalidMessage) || !strings.Contains(err.Error(), "registry_test.go") {
		t.Error(err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
