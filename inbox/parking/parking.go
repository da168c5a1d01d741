// Package parking keeps messages that could not be handled, in the table inbox_parked of the consumer's database. An operator
// lists, retries and drops them:
//
//	p, err := parking.New(in) // or Consumer.Parking of kgoinbox
//	...
//	n, err := p.Retry(ctx, parking.Filter{Type: "OrderPlaced"})
//
// Package kgoinbox parks and retries by itself. For consumers with another client are [Parking.Park], [Parking.Follow],
// [Parking.IsParked], [Parking.Blocked], [Parking.Ready], [Parking.First], [Parking.Redo] and [Parking.Failed].
package parking

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/cdc-relay/cdc-relay/inbox"
	"github.com/cdc-relay/cdc-relay/inbox/internal/sqltext"
	"github.com/cdc-relay/cdc-relay/writer"
)

// ErrFull means that a partition has as many parked messages as [WithLimit] allows. Nothing was parked: retry
// or drop some.
var ErrFull = errors.New("too many messages are parked")

// Parking keeps the messages that could not be handled in the table inbox_parked of the consumer's database. Messages
// behind them with the same key are parked, too, so the order of a key holds while other keys go on. It holds only settings
// and is safe for concurrent use.
//
// Several processes may believe that they own a partition: one that was stopped by the system learns of its loss when it
// runs again. These rules keep each effect once and the order of a key nevertheless:
//
//   - A message is parked in one transaction that also records it in the inbox. If the inbox has it, another process handled
//     or parked it, and it is not parked: it would be handled again by a retry.
//   - When the inbox has a message ([inbox.Inbox.Handle] reports a repeat), ask [Parking.IsParked], and if so treat its key as
//     blocked. An old owner may have parked it after the new one loaded the blocked keys.
//   - Load [Parking.Blocked] after the partition's committed offset was read, so when its first records are there. What is
//     before that offset was parked before it was committed, and so before it was loaded; what is behind it meets the rule above.
//   - A message of a blocked key is parked by [Parking.Follow], which first locks the key's first parked row. A retry deletes
//     that row in the transaction of the work: either the message is parked before the retry looks for the key's next row, or
//     there is no row left and the message is handled after those before it.
//   - A retry ([Parking.Redo]) deletes the parked row in the transaction of the work. Of two retries the second finds no row.
//     It is given the first row of a key: that stays the first until it is deleted, because a message is parked only after
//     those before it were handled or parked.
//   - [inbox.Inbox.Purge] leaves parked rows. A repeat of a parked message whose row in the inbox was purged finds its key blocked
//     and its parked row there.
//
// All that holds for messages of one key in one partition. While partitions are added to a topic, a key has two.
type Parking[Tx any] struct {
	in    *inbox.Inbox[Tx]
	db    writer.DB[Tx]
	table string // quoted
	limit int64
}

type config struct {
	table string
	limit int64
}

// Option configures [Parking].
type Option func(*config) error

// WithTable sets the table, by default inbox_parked: a name, or schema.name.
func WithTable(name string) Option {
	return func(c *config) error {
		c.table = name
		return nil
	}
}

// WithLimit sets how many messages of a partition may be parked, by default 10,000. Messages that are parked at the same moment
// do not count each other, so there may be a few more.
func WithLimit(n int) Option {
	return func(c *config) error {
		if n < 1 {
			return fmt.Errorf("the limit is %d: give WithLimit 1 or more", n)
		}
		c.limit = int64(n)
		return nil
	}
}

// New returns the parking of an inbox's consumer. It does not connect to the database.
func New[Tx any](in *inbox.Inbox[Tx], opts ...Option) (*Parking[Tx], error) {
	c := config{table: "inbox_parked", limit: 10_000}
	for _, o := range opts {
		if err := o(&c); err != nil {
			return nil, fmt.Errorf("make parking: %w", err)
		}
	}
	w, err := writer.New(in.DB().Dialect(), writer.WithTable(c.table)) // which quotes the name
	if err != nil {
		return nil, fmt.Errorf("make parking: %w", err)
	}
	return &Parking[Tx]{in: in, db: readCommitted(in.DB()), table: w.Table(), limit: c.limit}, nil
}

// readCommitted returns the DB for transactions without a handler. Under SERIALIZABLE those of PostgreSQL that count parked
// messages conflict with all that park some.
func readCommitted[Tx any](db writer.DB[Tx]) writer.DB[Tx] {
	if r, ok := db.(interface{ ReadCommitted() writer.DB[Tx] }); ok && db.Dialect() == writer.Postgres {
		return r.ReadCommitted()
	}
	return db
}

// Key is the hash of a message's key. A message without a key has a hash of its own, of topic, partition and offset.
type Key [sha256.Size]byte

// KeyOf returns the key under which a message is parked.
func KeyOf(m *inbox.Message) Key {
	if m.Key != nil {
		return hashKey(m.Key)
	}
	place := binary.BigEndian.AppendUint64([]byte("offset "), uint64(m.Offset))
	return sha256.Sum256(binary.BigEndian.AppendUint32(append(place, m.Topic...), uint32(m.Partition)))
}

func hashKey(key []byte) Key { return sha256.Sum256(append([]byte("key "), key...)) }

// Park parks a message whose handling failed with cause after m.Attempt attempts. It reports false if the inbox has the
// message: then another process handled or parked it. Errors: [ErrFull], [inbox.ErrDatabase], [inbox.ErrInvalidMessage].
func (p *Parking[Tx]) Park(ctx context.Context, m *inbox.Message, cause error) (parked bool, err error) {
	err = inbox.Transact(ctx, p.db, func(ctx context.Context, tx Tx) error {
		parked, err = p.insert(ctx, tx, m, cause)
		return err
	})
	return parked && err == nil, err
}

// Follow parks a message of a blocked key behind the key's parked messages. It reports false if none is parked anymore: the
// key is free, and the message is to be handled. A message that the inbox has already is not parked again. Errors are those
// of [Parking.Park].
func (p *Parking[Tx]) Follow(ctx context.Context, m *inbox.Message) (blocked bool, err error) {
	err = inbox.Transact(ctx, p.db, func(ctx context.Context, tx Tx) error {
		s := p.key(p.statement("SELECT topic_offset FROM "), m.Topic, m.Partition, KeyOf(m)).Add(" ORDER BY topic_offset LIMIT 1 FOR UPDATE")
		blocked = false
		err := p.query(ctx, tx, s, func(writer.Rows) error {
			blocked = true
			return nil
		})
		if err != nil || !blocked {
			return err
		}
		_, err = p.insert(ctx, tx, m, nil)
		return err
	})
	return blocked && err == nil, err
}

// insert records the message and its parked row; cause is nil for a message that follows another one.
func (p *Parking[Tx]) insert(ctx context.Context, tx Tx, m *inbox.Message, cause error) (parked bool, err error) {
	id, err := p.in.Identify(m)
	if err != nil {
		return false, err
	}
	first, err := p.in.Once(ctx, tx, m)
	if err != nil || !first {
		return false, err
	}
	if err := p.checkLimit(ctx, tx, m); err != nil {
		return false, err
	}
	record, err := json.Marshal(m)
	if err != nil {
		return false, fmt.Errorf("encode %s: %w", nameOf(m), err)
	}
	key := KeyOf(m)
	s := p.statement("INSERT INTO ").
		Add(" (consumer, source, message_id, topic, topic_partition, topic_offset, key_hash, event_type, aggregate_type, record, error, attempts) VALUES (").
		Texts(p.in.Consumer(), id.Source, id.ID, m.Topic).Add(", ").Int(int64(m.Partition)).Add(", ").Int(m.Offset).Add(", ").Bytes(key[:]).
		Add(", ").Texts(storable(m.Type, inbox.MaxID), storable(m.AggregateType, inbox.MaxID)).Add(", ").Bytes(record).Add(", ")
	addError(s, cause).Add(", ").Int(int64(m.Attempt)).Add(")")
	if s.Postgres() {
		s.Add(" ON CONFLICT DO NOTHING")
	}
	_, err = p.exec(ctx, tx, s)
	if _, number := writer.ServerError(err); number == 1062 { // ER_DUP_ENTRY: its row in the inbox was purged
		err = nil
	}
	return err == nil, err
}

func (p *Parking[Tx]) checkLimit(ctx context.Context, tx Tx, m *inbox.Message) error {
	s := p.statement("SELECT count(*) FROM ").Add(" WHERE consumer = ").Text(p.in.Consumer()).
		Add(" AND topic = ").Text(m.Topic).Add(" AND topic_partition = ").Int(int64(m.Partition))
	n, err := p.number(ctx, tx, s)
	if err == nil && n >= p.limit {
		return fmt.Errorf("park %s: %w (%d in this partition): Retry or Drop some, or raise WithLimit", nameOf(m), ErrFull, n)
	}
	return err
}

// nameOf names the record in errors.
func nameOf(m *inbox.Message) string {
	return fmt.Sprintf("record %s[%d]@%d", m.Topic, m.Partition, m.Offset)
}

// maxError bounds the text of an error that is stored.
const maxError = 4096

func addError(s *sqltext.Statement, err error) *sqltext.Statement {
	if err == nil {
		return s.Add("NULL")
	}
	return s.Text(storable(err.Error(), maxError))
}

// storable returns what every database takes as text of at most limit bytes.
func storable(text string, limit int) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text[:min(len(text), limit)], ""), "\x00", "")
}

// IsParked reports whether one of the messages is parked. Ask it after a repeat.
func (p *Parking[Tx]) IsParked(ctx context.Context, ms ...*inbox.Message) (parked bool, err error) {
	ids := make([]inbox.MessageID, len(ms))
	for i, m := range ms {
		if ids[i], err = p.in.Identify(m); err != nil {
			return false, err
		}
	}
	n, err := p.Count(ctx, Filter{IDs: ids})
	return n > 0, err
}

// Blocked returns the keys with parked messages of a partition.
func (p *Parking[Tx]) Blocked(ctx context.Context, topic string, partition int32) (map[Key]bool, error) {
	keys := map[Key]bool{}
	err := inbox.Transact(ctx, p.db, func(ctx context.Context, tx Tx) error {
		s := p.statement("SELECT DISTINCT key_hash FROM ").Add(" WHERE consumer = ").Text(p.in.Consumer()).
			Add(" AND topic = ").Text(topic).Add(" AND topic_partition = ").Int(int64(partition))
		return p.query(ctx, tx, s, func(rows writer.Rows) error {
			var hash []byte
			err := rows.Scan(&hash)
			if err == nil && len(hash) == sha256.Size {
				keys[Key(hash)] = true
			}
			return err
		})
	})
	return keys, err
}
