package writer_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/cdc-relay/cdc-relay/writer"
)

func newMySQL(tb testing.TB, opts ...writer.Option) *writer.Writer {
	tb.Helper()
	w, err := writer.New(writer.MySQL, opts...)
	if err != nil {
		tb.Fatal(err)
	}
	return w
}

const mysqlInsert = "INSERT INTO `outbox` (event_id, aggregate_type, aggregate_id, event_type, tenant_id, topic, " +
	"partition_key, content_type, schema_id, schema_version, headers, payload, occurred_at, created_at) VALUES "

const mysqlRow = "(UNHEX(?), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, COALESCE(?, UTC_TIMESTAMP(6)))"

func TestMySQLPayloadColumnRefusesWhatTheColumnWould(t *testing.T) {
	for column, refused := range map[writer.PayloadColumn]string{writer.PayloadText: "\xff", writer.PayloadJSONB: "{"} {
		e := newEvent()
		e.Payload = []byte(refused)
		requireEventError(t, newMySQL(t, writer.WithPayloadColumn(column)).Append(t.Context(), &recorder{}, e), 0, "Payload", "a table with LONGBLOB")
	}
}

// The limit is in characters, not bytes.
func TestMySQLRefusesTooLongText(t *testing.T) {
	for field, set := range map[string]func(*writer.Event, string){
		"AggregateType": func(e *writer.Event, s string) { e.AggregateType = s },
		"AggregateID":   func(e *writer.Event, s string) { e.AggregateID = s },
		"Type":          func(e *writer.Event, s string) { e.Type = s },
		"TenantID":      func(e *writer.Event, s string) { e.TenantID = s },
		"Topic":         func(e *writer.Event, s string) { e.Topic = s },
		"PartitionKey":  func(e *writer.Event, s string) { e.PartitionKey = s },
		"ContentType":   func(e *writer.Event, s string) { e.ContentType = s },
		"SchemaID":      func(e *writer.Event, s string) { e.SchemaID = s },
	} {
		for _, letter := range []string{"x", "ü", "\U0001F600"} {
			tx, events := &recorder{}, newEvents(2)
			set(events[1], strings.Repeat(letter, 256))
			requireEventError(t, newMySQL(t).Append(t.Context(), tx, events...), 1, field, "has 256 characters, and its column takes 255: ")
			set(events[1], strings.Repeat(letter, 255))
			if err := newMySQL(t).Append(t.Context(), tx, events...); err != nil || len(tx.statements) != 1 {
				t.Errorf("%s of 255 %s: %v", field, letter, err)
			}
			set(events[1], strings.Repeat(letter, 256))
			if err := newWriter(t).Append(t.Context(), tx, events...); err != nil {
				t.Errorf("on PostgreSQL: %v", err)
			}
		}
	}
}

// Statements are limited in rows, to stay below the server's 65535 parameters, and in bytes.
func TestMySQLLimitsStatements(t *testing.T) {
	many, large := newEvents(10_000), newEvents(20)
	for _, e := range large {
		e.Payload = make([]byte, 1<<20)
	}
	for want, events := range map[int][]*writer.Event{3: many, 7: large} {
		tx := &recorder{}
		mustAppend(t, newMySQL(t), tx, events...)
		if len(tx.statements) != want {
			t.Errorf("%d statements, want %d", len(tx.statements), want)
		}
		n := 0
		for _, s := range tx.statements {
			if len(s.args) > 65535 || strings.Count(s.query, "?") != len(s.args) {
				t.Errorf("%d arguments for %d parameters", len(s.args), strings.Count(s.query, "?"))
			}
			for i := 0; i < len(s.args); i, n = i+columns, n+1 {
				if s.args[i] != hex.EncodeToString(events[n].ID[:]) {
					t.Fatalf("row %d is not event %d", n, n)
				}
			}
		}
	}
}

func TestMySQLErrorsNameTheFix(t *testing.T) {
	for code, want := range map[uint16]string{
		1046: "database in the DSN", 1146: "cdc-relay setup", 1054: "cdc-relay schema print", 1142: "GRANT INSERT ON `app`.`outbox` to the user",
		1143: "GRANT INSERT", 1526: "MAXVALUE", 1290: "read-write transaction on the primary", 1792: "read-write", 1836: "read-write",
		1153: "max_allowed_packet", 1406: "columns' lengths", 1366: "charset=utf8mb4", 3988: "charset=utf8mb4", 3140: "WithPayloadColumn", 4025: "WithPayloadColumn",
		1213: "run the transaction again", 1205: "run the transaction again", 1062: "number 1062: an event with this ID already exists: append each event once",
		9999: "insert 1 event into `app`.`outbox`: driver: number 9999",
	} {
		cause := &number{code}
		err := newMySQL(t, writer.WithTable("app.outbox")).Append(t.Context(), &recorder{err: fmt.Errorf("driver: %w", cause)}, newEvent())
		if !errors.Is(err, cause) || !strings.Contains(err.Error(), want) {
			t.Errorf("%d: %v, want %q", code, err, want)
		}
		if errors.Is(err, writer.ErrDuplicate) != (code == 1062) {
			t.Errorf("%v: wrong result of errors.Is(err, ErrDuplicate)", err)
		}
	}
	for _, cause := range []error{errors.New("odd"), context.Canceled} {
		if err := newMySQL(t).InsertError(2, cause); !errors.Is(err, cause) || !strings.HasPrefix(err.Error(), "insert 2 events into `outbox`: ") {
			t.Error(err)
		}
	}
}

func TestMySQLAllocatesLikeAHandWrittenInsert(t *testing.T) {
	allocatesLike(t, newMySQL(t), func(ctx context.Context, tx writer.Tx, e *writer.Event) error {
		id := uuid.Must(uuid.NewV7())
		now := time.Now().UTC()
		at, created := now.Format("2006-01-02 15:04:05.000000"), now.Truncate(time.Millisecond).Format("2006-01-02 15:04:05.000000")
		_, err := tx.ExecContext(ctx, mysqlInsert+mysqlRow, hex.EncodeToString(id[:]), e.AggregateType, e.AggregateID, e.Type, nil, nil, nil,
			"application/json", nil, nil, nil, e.Payload, at, created)
		return err
	})
}
