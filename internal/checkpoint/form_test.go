package checkpoint_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"pgregory.net/rapid"

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

// The package comment lists each field, in order.
func TestDocumentedForm(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	must(t, err)
	rest := string(doc)
	for _, field := range []string{
		"version", "source", "system_id", "database", "slot", "timeline", "fingerprint", "position", "commit", "txid", "generation",
		"sequence", "fence", "last_event_id", "saved_at",
	} {
		_, after, found := strings.Cut(rest, `"`+field+`"`)
		if !found {
			t.Fatalf("%s is not described, or not in order", field)
		}
		rest = after
	}
}

func TestFormRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := cdc.Checkpoint{
			Source: cdc.Source{
				SystemID: rapid.String().Draw(t, "system"), Database: rapid.String().Draw(t, "database"),
				Slot: rapid.String().Draw(t, "slot"), Timeline: rapid.Uint32().Draw(t, "timeline"),
				Fingerprint: rapid.String().Draw(t, "fingerprint"),
			},
			Progress: cdc.Progress{
				Position: cdc.Position(rapid.String().Draw(t, "position")),
				Commit:   cdc.Position(rapid.String().Draw(t, "commit")), TxID: rapid.String().Draw(t, "txid"),
			},
			Generation: rapid.Uint64().Draw(t, "generation"), Sequence: rapid.Uint64().Draw(t, "sequence"),
			Fence:       rapid.String().Draw(t, "fence"),
			LastEventID: rapid.String().Draw(t, "event"), PositionTopic: rapid.String().Draw(t, "topic"),
			SavedAt: time.Unix(rapid.Int64Range(0, 1<<37).Draw(t, "seconds"), rapid.Int64Range(0, 999_999_999).Draw(t, "nanoseconds")).UTC(),
		}
		value, err := checkpoint.Encode(want)
		must(t, err)
		if got, err := checkpoint.Decode(value); err != nil || got != want {
			t.Fatalf("%s\ngave %+v\nwant %+v\n%v", value, got, want, err)
		}
	})
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

func TestNone(t *testing.T) {
	var none checkpoint.None
	err := errors.Join(none.Save(t.Context(), example()), none.Reset(t.Context()), none.Close())
	if c, found, loadErr := none.Load(t.Context()); err != nil || loadErr != nil || found || c != (cdc.Checkpoint{}) {
		t.Errorf("%+v, %t, %v, %v", c, found, loadErr, err)
	}
	if f := none.Check(t.Context()); len(f) != 1 || f[0].Severity != cdc.SeverityInfo || f[0].Fix == "" {
		t.Errorf("%+v", f)
	}
}

// The Lua script and the rule in Go, which the file store uses, agree on random pairs.
func TestLuaAgreesWithGo(t *testing.T) {
	server := miniredis.RunT(t)
	redis := openRedis(t, options(server.Addr()))
	defer redis.Close()
	path := filepath.Join(t.TempDir(), "checkpoint")
	file := openFile(t, path)
	defer file.Close()
	number := rapid.OneOf(rapid.Uint64(), rapid.Uint64Range(0, 120), rapid.Uint64Range(1<<53-2, 1<<53+2))
	rapid.Check(t, func(draw *rapid.T) {
		server.FlushAll()
		if err := file.Reset(t.Context()); err != nil {
			draw.Fatal(err)
		}
		for range 3 {
			c := example()
			c.Generation, c.Sequence = number.Draw(draw, "generation"), number.Draw(draw, "sequence")
			c.Source.Slot = rapid.SampledFrom([]string{"a", "a", "a", "b"}).Draw(draw, "slot")
			inRedis, inFile := redis.Save(t.Context(), c), file.Save(t.Context(), c)
			for _, kind := range []func(error) bool{
				func(err error) bool { return err == nil },
				func(err error) bool { return errors.Is(err, cdc.ErrFenced) },
			} {
				if kind(inRedis) != kind(inFile) {
					draw.Fatalf("(%d, %d): Redis %v, file %v", c.Generation, c.Sequence, inRedis, inFile)
				}
			}
		}
		value, err := server.Get(key)
		onDisk, diskErr := os.ReadFile(path)
		if err != nil || diskErr != nil || !bytes.Equal(append([]byte(value), '\n'), onDisk) {
			draw.Fatalf("Redis has %s, the file %s", value, onDisk)
		}
	})
}
