package deadletter

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Held is the reason of a letter with which nothing is wrong: it waits behind another one of its key.
const Held = "held"

// How a letter was resolved.
const (
	Published = "published"
	Dropped   = "dropped"
)

// Order is where a letter stands among those of its key.
type Order struct {
	// Epoch counts the starts that had letters, Seq the batches of such a start.
	Epoch uint64 `json:"epoch"`
	Seq   uint64 `json:"seq"`
	// Row is the row in its batch.
	Row int32 `json:"row"`
}

// Compare is -1, 0 or 1.
func (o Order) Compare(p Order) int {
	return cmp.Or(cmp.Compare(o.Epoch, p.Epoch), cmp.Compare(o.Seq, p.Seq), cmp.Compare(o.Row, p.Row))
}

// Entry is what the index holds of a letter, under [EntryKey].
type Entry struct {
	V int `json:"v"`
	// Done is how the letter was resolved, "" if it was not. What is done has no other fields but Partition.
	Done string `json:"done,omitempty"`
	// Partition of the topic of letters.
	Partition int32 `json:"partition"`
	Order     Order `json:"order,omitzero"`
	// Place is that of the row; see [cdc.Batch.Place].
	Place string `json:"place,omitempty"`
	Table string `json:"table,omitempty"`
	// Key is the record's key, or its SHA-256 if that is shorter; see [HoldName]. "": it has none, and holds nothing.
	Key           string `json:"key,omitempty"`
	ID            string `json:"id,omitempty"`
	Type          string `json:"type,omitempty"`
	AggregateType string `json:"aggregate_type,omitempty"`
	Tenant        string `json:"tenant,omitempty"`
	// Topic is where it should have gone; "" if no topic was found.
	Topic  string `json:"topic,omitempty"`
	Reason string `json:"reason,omitempty"`
	Error  string `json:"error,omitempty"`
	// Time is when it became a letter, and Tried when it was tried last.
	Time     time.Time `json:"time,omitzero"`
	Tried    time.Time `json:"tried,omitzero"`
	Attempts int       `json:"attempts,omitempty"`
	// Stub says that an earlier version wrote the letter without its payload; see [Records.Whole].
	Stub bool `json:"stub,omitempty"`
}

// version of what the index holds. Another one is refused: it is of a newer relay.
const version = 1

// Blocked reports whether something is wrong with the letter itself.
func (e *Entry) Blocked() bool { return e.Reason != Held }

// HoldName identifies what the letter holds up; "" for nothing.
func (e *Entry) HoldName() string {
	if e.Key == "" {
		return ""
	}
	return e.Table + "\x00" + e.Key
}

// Encode returns the record's value.
func (e *Entry) Encode() []byte {
	e.V = version
	text, _ := json.Marshal(e) // cannot fail: strings, numbers and times of this age
	return text
}

// DoneValue is the value of the entry of a letter that is resolved.
func DoneValue(partition int32, how string) []byte {
	return (&Entry{Done: how, Partition: partition}).Encode()
}

// HoldName is what the letters of a table and key hold up; "" for nothing.
func HoldName(table *cdc.Table, key []byte) string { return string(AppendHoldName(nil, table, key)) }

// AppendHoldName appends it to dst, which was empty: one look at every event while there are letters allocates nothing.
func AppendHoldName(dst []byte, table *cdc.Table, key []byte) []byte {
	if len(key) == 0 {
		return dst
	}
	dst = append(append(append(dst, table.Schema...), '.'), table.Name...)
	dst = append(dst, 0)
	if len(key) > cdc.MaxKeyText {
		return append(dst, cdc.KeyText(key)...)
	}
	return append(dst, key...)
}

// maxID is how much of an event ID a letter's ID and an entry hold.
const maxID = 200

// Short is a text as an entry holds it.
func Short(text []byte) string {
	if len(text) > maxID {
		text = text[:maxID]
	}
	return strings.ToValidUTF8(string(text), "")
}

// ID is the ID of a letter: event ID and place. Event IDs alone are not unique, and compaction would lose a letter.
func ID(eventID []byte, place string) string {
	return Short(eventID) + "@" + place
}

// placeOf is the place in the ID of a letter.
func placeOf(id string) string { return id[strings.LastIndexByte(id, '@')+1:] }

// The keys of the index.
const (
	entryPrefix = "letter/"
	askPrefix   = "ask/"
	// Barrier is the key of a record that a start writes: what follows it is not of an earlier relay. It is one of the topic of
	// letters too.
	Barrier = "barrier"
	// SourceKey is that of the source that the letters belong to.
	SourceKey = "source"
)

// EntryKey is the key of a letter's entry.
func EntryKey(id string) []byte { return []byte(entryPrefix + id) }

// IsEntry reports whether a key is that of an entry.
func IsEntry(key string) bool { return strings.HasPrefix(key, entryPrefix) }

// AskKey is the key of an [Ask].
func AskKey(id string) []byte { return []byte(askPrefix + id) }

// Records are those of an index by their keys, the last of each.
type Records struct {
	Entries map[string]*Entry // by letter ID
	Asks    map[string]*Ask
	Source  *SourceRecord
}

// NewRecords returns those of an empty index.
func NewRecords() *Records { return &Records{Entries: map[string]*Entry{}, Asks: map[string]*Ask{}} }

// Add takes a record in. A nil value removes what its key stands for.
func (r *Records) Add(key string, value []byte) error {
	var err error
	switch prefix, id := cutKey(key); prefix {
	case entryPrefix:
		err = replace(r.Entries, id, value, func(e *Entry) int { return e.V })
	case askPrefix:
		err = replace(r.Asks, id, value, func(a *Ask) int { return a.V })
	case SourceKey:
		r.Source = new(SourceRecord)
		err = json.Unmarshal(value, r.Source)
	case Barrier:
	default:
		err = fmt.Errorf("key %.100q is not known", key)
	}
	if err != nil {
		return cdc.Fixable("use the cdc-relay that wrote it, or a newer one", "index of dead letters has a record that this version cannot read: %w", err)
	}
	return nil
}

// WithoutPayload is the reason when letters have no payload.
const WithoutPayload = "dead_letter_without_payload"

// Whole returns a [cdc.StopError] if a letter that is not resolved has no payload. Earlier versions wrote such letters of large events. They
// read the table's row to publish one again, and kept all rows until then.
func (r *Records) Whole() error {
	var stubs []string
	for id, e := range r.Entries {
		if e.Stub && e.Done == "" {
			stubs = append(stubs, id)
		}
	}
	if len(stubs) == 0 {
		return nil
	}
	return cdc.Stop(cdc.ClassConfig, WithoutPayload, fmt.Errorf(
		"dead letter %s, and %d more, have no payload, which earlier versions of cdc-relay read from the table", slices.Min(stubs), len(stubs)-1),
		"start the version of cdc-relay that ran before, publish or drop these dead letters with its `cdc-relay dlq retry --all --yes` or `cdc-relay dlq drop --all --yes`, and start this version then")
}

// OfTables returns a [cdc.StopError] if a letter that is not resolved is of another table: events of its key in that table, renamed, would be
// published before it.
func (r *Records) OfTables(tables []string) error {
	for _, id := range slices.Sorted(maps.Keys(r.Entries)) {
		if e := r.Entries[id]; e.Done == "" && !slices.Contains(tables, e.Table) {
			return cdc.Stop(cdc.ClassConfig, "dead_letter_of_another_table", fmt.Errorf("dead letter %s is of table %s, which tables does not name", id, e.Table),
				"name the table as it was until `cdc-relay dlq list --count` prints 0: rename it back, or create an empty one if it was dropped")
		}
	}
	return nil
}

func cutKey(key string) (prefix, id string) {
	for _, prefix := range []string{entryPrefix, askPrefix} {
		if id, ok := strings.CutPrefix(key, prefix); ok {
			return prefix, id
		}
	}
	return key, ""
}

func replace[T any](records map[string]*T, id string, value []byte, of func(*T) int) error {
	if value == nil {
		delete(records, id)
		return nil
	}
	record := new(T)
	if err := json.Unmarshal(value, record); err != nil {
		return err
	}
	if v := of(record); v != version {
		return fmt.Errorf("version %d", v)
	}
	records[id] = record
	return nil
}

// SourceRecord says whose letters these are.
type SourceRecord struct {
	V        int    `json:"v"`
	SystemID string `json:"system"`
	Database string `json:"database"`
	Slot     string `json:"slot,omitempty"`
}

// NewSourceRecord returns that of a source.
func NewSourceRecord(s cdc.Source) *SourceRecord {
	return &SourceRecord{V: version, SystemID: s.SystemID, Database: s.Database, Slot: s.Slot}
}

// Encode returns the record's value.
func (r *SourceRecord) Encode() []byte {
	text, _ := json.Marshal(r) // cannot fail: strings
	return text
}
