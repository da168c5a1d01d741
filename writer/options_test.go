package writer_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/writer"
)

func TestNewRefusesBadSettings(t *testing.T) {
	for name, c := range map[string]struct {
		dialect writer.Dialect
		option  writer.Option
		want    string
	}{
		"zero dialect":        {0, nil, "dialect 0 is unknown: use writer.Postgres, writer.MySQL or writer.MariaDB"},
		"unknown dialect":     {9, nil, "dialect 9 is unknown"},
		"no table":            {1, writer.WithTable(""), "has an empty part"},
		"no schema":           {1, writer.WithTable(".outbox"), "has an empty part"},
		"no table in schema":  {1, writer.WithTable("app."), "has an empty part"},
		"three parts":         {1, writer.WithTable("a.b.c"), "more than two parts"},
		"quote left open":     {1, writer.WithTable(`app."outbox`), "lacks a closing quote"},
		"text behind a quote": {1, writer.WithTable(`"app"outbox`), "continues after a closing quote"},
		"empty quotes":        {1, writer.WithTable(`""`), "has an empty part"},
		"NUL in the table":    {1, writer.WithTable("out\x00box"), "U+0000"},
		"table not UTF-8":     {1, writer.WithTable("out\xffbox"), "UTF-8"},
		"no payload":          {1, writer.WithMaxPayload(0), "give WithMaxPayload 1 to 134217728"},
		"payload too large":   {1, writer.WithMaxPayload(128<<20 + 1), "give WithMaxPayload 1 to 134217728"},
		"duplicates":          {1, writer.WithOnDuplicate(9), "give WithOnDuplicate FailOnDuplicate or SkipDuplicate"},
		"backtick left open":  {3, writer.WithTable("app.`outbox"), "lacks a closing quote"},
		"payload column":      {1, writer.WithPayloadColumn(9), "give WithPayloadColumn PayloadBytea"},
		"interceptor":         {1, writer.WithInterceptor(nil), "give WithInterceptor functions"},
		"headers":             {1, writer.WithHeaders(nil), "give WithHeaders a function"},
		"tenant":              {1, writer.WithTenant(nil), "give WithTenant a function"},
		"observer":            {1, writer.WithObserver(nil), "give WithObserver a function"},
		"clock":               {1, writer.WithClock(nil), "give WithClock a function"},
		"IDs":                 {1, writer.WithIDs(nil), "give WithIDs a function"},
		"attempts":            {1, writer.WithAttempts(0), "give WithAttempts at least 1"},
		"errors of hooks":     {1, writer.WithHookErrors(nil), "give WithHookErrors a function"},
	} {
		t.Run(name, func(t *testing.T) {
			var opts []writer.Option
			if c.option != nil {
				opts = append(opts, c.option)
			}
			w, err := writer.New(c.dialect, opts...)
			if err == nil || w != nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "make writer: ") {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

func TestWithMaxPayloadIsTheLimit(t *testing.T) {
	w, e := newWriter(t, writer.WithMaxPayload(3)), newEvent()
	e.Payload = []byte("123")
	if err := w.Append(t.Context(), &recorder{}, e); err != nil {
		t.Error(err)
	}
	e.Payload = []byte("1234")
	if err := w.Append(t.Context(), &recorder{}, e); !errors.Is(err, writer.ErrPayloadTooLarge) {
		t.Errorf("error %v", err)
	}
}

func TestJSON(t *testing.T) {
	type aggregate string
	type event string
	e, err := writer.JSON(aggregate("Order"), "o-1", event("OrderPlaced"), map[string]int{"total": 3})
	if err != nil {
		t.Fatal(err)
	}
	if e.AggregateType != "Order" || e.AggregateID != "o-1" || e.Type != "OrderPlaced" ||
		string(e.Payload) != `{"total":3}` || e.ContentType != "application/json" {
		t.Errorf("event %+v", e)
	}
	e, err = writer.JSON("Order", "o-1", "OrderPlaced", func() {})
	if e != nil || !errors.Is(err, writer.ErrInvalidEvent) || !strings.Contains(err.Error(), `encode payload of "OrderPlaced" as JSON`) {
		t.Errorf("event %v, error %v", e, err)
	}
}

func TestWithPayloadColumnRefusesWhatTheColumnWould(t *testing.T) {
	text, jsonb := writer.PayloadText, writer.PayloadJSONB
	for name, c := range map[string]struct {
		column  writer.PayloadColumn
		payload string
		reason  string
	}{
		"any bytes as bytea":          {writer.PayloadBytea, "\xff\x00", ""},
		"text":                        {text, "no JSON, \\u0000 é", ""},
		"no text":                     {text, "", ""},
		"text that is not UTF-8":      {text, "a\xff", "is not valid UTF-8"},
		"text with NUL":               {text, "a\x00", "contains U+0000"},
		"JSON":                        {jsonb, `{"a":"\\u0000 \u00e9"}`, ""},
		"JSON null":                   {jsonb, `null`, ""},
		"JSON with an escaped NUL":    {jsonb, `{"a":"x\u0000"}`, "contains U+0000"},
		"JSON with a slash and a NUL": {jsonb, `{"a":"x\\\u0000"}`, "contains U+0000"},
		"JSON that is not UTF-8":      {jsonb, "\"\xff\"", "is not valid UTF-8"},
		"no JSON":                     {jsonb, `{"a"`, "is not JSON"},
		"nothing as JSON":             {jsonb, ``, "is not JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			w, e, tx := newWriter(t, writer.WithPayloadColumn(c.column)), newEvent(), &recorder{}
			e.Payload = []byte(c.payload)
			err := w.Append(t.Context(), tx, e)
			if c.reason != "" {
				requireEventError(t, err, 0, "Payload", c.reason)
			} else if err != nil || len(tx.statements) != 1 {
				t.Errorf("error %v, %d statements", err, len(tx.statements))
			}
			e.Payload, e.Tombstone = nil, true
			if err := w.Append(t.Context(), tx, e); err != nil {
				t.Errorf("tombstone: %v", err)
			}
		})
	}
}
