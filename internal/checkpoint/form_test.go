package checkpoint_test

import (
	"strings"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/checkpoint"
)

// stored is the example of the package comment, as it is written.
const stored = `{"version":1,"source":{"system_id":"7412345678901234567","database":"orders","slot":"cdc_relay_orders","timeline":1,"fingerprint":"publication=16385+742"},` +
	`"position":"00000000016B3748","commit":"00000000016B3700","txid":"742","generation":"3","sequence":"1842",` +
	`"fence":"cdc-relay.7412345678901234567.orders.cdc_relay_orders","last_event_id":"0198c0de-0000-7000-8000-000000000001","saved_at":"2026-01-02T03:04:05.678901234Z"}`

// storedBefore has every field, as versions before 2026-12 wrote it.
var storedBefore = strings.TrimSuffix(strings.Replace(stored, `742"},`, `742","server":"1795613311.482915"},`, 1), "}") +
	`,"part":{"txid":"1/742","rows":12,"tables":"public.outbox"},"exactly_once":true,"position_topic":"positions",` +
	`"xmin":"4294968038","hint":"h/b.1/2/0","backfill":"TRUE","settled":"9c3a"}`

func example() cdc.Checkpoint {
	return cdc.Checkpoint{
		Source:      cdc.Source{SystemID: "7412345678901234567", Database: "orders", Slot: "cdc_relay_orders", Timeline: 1, Fingerprint: "publication=16385+742"},
		Progress:    cdc.Progress{Position: "00000000016B3748", Commit: "00000000016B3700", TxID: "742"},
		Generation:  3,
		Sequence:    1842,
		Fence:       "cdc-relay.7412345678901234567.orders.cdc_relay_orders",
		LastEventID: "0198c0de-0000-7000-8000-000000000001",
		SavedAt:     time.Date(2026, 1, 2, 3, 4, 5, 678901234, time.UTC),
	}
}

// Later versions must read the stored form.
func TestForm(t *testing.T) {
	value, err := checkpoint.Encode(example())
	if err != nil || string(value) != stored {
		t.Errorf("%s, %v", value, err)
	}
	got, err := checkpoint.Decode([]byte(stored))
	if err != nil || got != example() {
		t.Errorf("%+v, %v", got, err)
	}
	full := example()
	full.Source.Server, full.Hint, full.XMin, full.Backfill = "1795613311.482915", "h/b.1/2/0", "4294968038", "TRUE"
	full.Part = cdc.Part{TxID: "1/742", Rows: 12, Tables: "public.outbox"}
	full.ExactlyOnce, full.PositionTopic, full.Settled = true, "positions", "9c3a"
	if got, err := checkpoint.Decode([]byte(storedBefore)); err != nil || got != full {
		t.Errorf("%+v, %v", got, err)
	}
	if value, err := checkpoint.Encode(full); err != nil || len(value) != len(storedBefore) { // in another order
		t.Errorf("%s, %v", value, err)
	}
	later := strings.Replace(stored, `"txid"`, `"added_later":[1],"txid"`, 1)
	if got, err := checkpoint.Decode([]byte(" " + later + "\n")); err != nil || got != example() {
		t.Errorf("with a field that is not known: %+v, %v", got, err)
	}
}

// Text that JSON would change must not be stored: the next start would take the checkpoint for another source's.
func TestEncodeRefusesWhatJSONChanges(t *testing.T) {
	for name, change := range map[string]func(*cdc.Checkpoint){
		"database": func(c *cdc.Checkpoint) { c.Source.Database = "caf\xe9" },
		"position": func(c *cdc.Checkpoint) { c.Progress.Position = "\xff" },
		"time":     func(c *cdc.Checkpoint) { c.SavedAt = time.Date(12026, 1, 1, 0, 0, 0, 0, time.UTC) },
	} {
		c := example()
		change(&c)
		if value, err := checkpoint.Encode(c); err == nil {
			t.Errorf("%s: stored as %s", name, value)
		}
	}
}

// Decoding any value returns an error or a checkpoint that can be stored again unchanged.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(stored))
	f.Fuzz(func(t *testing.T, value []byte) {
		c, err := checkpoint.Decode(value)
		if err != nil {
			if c != (cdc.Checkpoint{}) {
				t.Errorf("an error was returned with %+v", c)
			}
			return
		}
		again, err := checkpoint.Encode(c)
		if err != nil {
			return // a year beyond 9999
		}
		c2, err := checkpoint.Decode(again)
		if err != nil || !c2.SavedAt.Equal(c.SavedAt) {
			t.Fatalf("%q became %q: %v", value, again, err)
		}
		if c.SavedAt = c2.SavedAt; c2 != c {
			t.Fatalf("%+v became %+v", c, c2)
		}
	})
}
