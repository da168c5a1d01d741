package parking

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"reflect"
	"time"

	"github.com/cdc-relay/cdc-relay/inbox"
	"github.com/cdc-relay/cdc-relay/inbox/internal/sqltext"
	"github.com/cdc-relay/cdc-relay/writer"
)

// Filter chooses parked messages of the consumer. Fields that are zero are not compared; several must all match. The zero
// Filter chooses all.
type Filter struct {
	All           bool // says that a Filter without conditions is meant; [Parking.Drop] wants it
	Topic         string
	Partition     *int32
	Type          string
	AggregateType string
	IDs           []inbox.MessageID // as the table has them, so with the sources that [inbox.WithSource] returns; an empty slice that is not nil chooses none
	Key           []byte            // of the record
	Before        time.Time         // parked before
	Error         string            // is part of the error's text; messages behind others have none
}

// Parked is a parked message.
type Parked struct {
	ID      inbox.MessageID
	Message *inbox.Message // a copy of its own, with Attempt as it was; bytes of its texts that are not UTF-8 are replaced
	Error   string         // of the last attempt, at most 4096 bytes; "" if it waits behind another one of its key
	Retry   bool           // [Parking.Retry] chose it, and it was not tried yet
	At      time.Time

	broken error // it cannot be decoded: Message is empty
}

// List returns the parked messages, by source and ID, in pages of 100. It ends at the first error, except that a message that
// cannot be decoded has its ID and an error, and the others follow: to drop it, choose its ID. Messages that come and go
// meanwhile may be there or not.
func (p *Parking[Tx]) List(ctx context.Context, f Filter) iter.Seq2[*Parked, error] {
	return func(yield func(*Parked, error) bool) {
		for after := (inbox.MessageID{}); ; {
			s := p.parked()
			p.where(s, f)
			if after != (inbox.MessageID{}) {
				s.Add(" AND (source, message_id) > (").Texts(after.Source, after.ID).Add(")")
			}
			page, err := p.read(ctx, s.Add(" ORDER BY source, message_id LIMIT ").Int(pageSize))
			if err != nil {
				yield(nil, err)
				return
			}
			for _, row := range page {
				if !yield(row, row.broken) {
					return
				}
				after = row.ID
			}
			if len(page) < pageSize {
				return
			}
		}
	}
}

// pageSize is how many parked messages are read at once.
const pageSize = 100

// Count returns how many messages are parked.
func (p *Parking[Tx]) Count(ctx context.Context, f Filter) (n int64, err error) {
	err = inbox.Transact(ctx, p.db, func(ctx context.Context, tx Tx) (err error) {
		s := p.statement("SELECT count(*) FROM ")
		p.where(s, f)
		n, err = p.number(ctx, tx, s)
		return err
	})
	return n, err
}

// Retry asks the owner of the partition to handle parked messages again, and returns how many were chosen now. The owner
// begins with the first message of the key, also if another one was chosen, and goes on up to the first that fails.
func (p *Parking[Tx]) Retry(ctx context.Context, f Filter) (int64, error) {
	s := p.statement("UPDATE ").Add(" SET retry = true")
	p.where(s, f)
	return p.change(ctx, s.Add(" AND retry = false"))
}

// Drop deletes parked messages, which are then never handled: the inbox keeps their rows. Messages of the same keys behind
// them are handled by the owner of the partition if no earlier one is left. The zero Filter is an error: to drop all, set All.
func (p *Parking[Tx]) Drop(ctx context.Context, f Filter) (int64, error) {
	if reflect.ValueOf(f).IsZero() {
		return 0, errors.New("drop parked messages: the filter is empty: set a field of Filter, or All to drop all of them")
	}
	s := p.statement("DELETE FROM ")
	p.where(s, f)
	return p.change(ctx, s)
}

func (p *Parking[Tx]) change(ctx context.Context, s *sqltext.Statement) (n int64, err error) {
	err = inbox.Transact(ctx, p.db, func(ctx context.Context, tx Tx) (err error) {
		n, err = p.exec(ctx, tx, s)
		return err
	})
	return n, err
}

// Ready returns the first parked message of each key of a partition that is to be handled now, at most 100: Retry chose a
// message of the key, or the first one has no error, because the one before it was handled or dropped. Give each to Redo
// in the key's lane, so that newer messages of the key wait. Messages that cannot be decoded are an error beside the others.
func (p *Parking[Tx]) Ready(ctx context.Context, topic string, partition int32) ([]*Parked, error) {
	const sameKey = " o WHERE o.consumer = p.consumer AND o.topic = p.topic AND o.topic_partition = p.topic_partition AND o.key_hash = p.key_hash AND "
	s := p.parked().Add(" p")
	p.where(s, Filter{Topic: topic, Partition: &partition})
	s.Add(" AND NOT EXISTS (SELECT 1 FROM ").Add(p.table).Add(sameKey).Add("o.topic_offset < p.topic_offset)").
		Add(" AND (error IS NULL OR EXISTS (SELECT 1 FROM ").Add(p.table).Add(sameKey).Add("o.retry = true))")
	rows, err := p.read(ctx, s.Add(" LIMIT ").Int(pageSize))
	ready := rows[:0]
	for _, row := range rows {
		if row.broken == nil {
			ready = append(ready, row)
		}
		err = errors.Join(err, row.broken)
	}
	return ready, err
}

// First returns the first parked message of a key, nil if there is none.
func (p *Parking[Tx]) First(ctx context.Context, topic string, partition int32, key Key) (*Parked, error) {
	rows, err := p.read(ctx, p.key(p.parked(), topic, partition, key).Add(" ORDER BY topic_offset LIMIT 1"))
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	if rows[0].broken != nil {
		return nil, rows[0].broken
	}
	return rows[0], nil
}

// Redo calls fn and deletes a parked message in one transaction. If another process deleted it, fn is not called and Redo
// reports false. Errors are those of [inbox.Inbox.Handle]. Call [Parking.Failed] if fn will not be tried again.
func (p *Parking[Tx]) Redo(ctx context.Context, row *Parked, fn func(ctx context.Context, tx Tx, u *writer.Unit) error) (done bool, err error) {
	err = inbox.TransactUnit(ctx, p.in.DB(), p.in.Writer(), func(ctx context.Context, tx Tx, u *writer.Unit) error {
		take, remove := p.take(row)
		n, err := p.exec(ctx, tx, take)
		if done = err == nil && n == 1; !done {
			return err
		}
		if err := fn(ctx, tx, u); err != nil || remove == nil {
			return err
		}
		n, err = p.exec(ctx, tx, remove)
		if state, number := writer.ServerError(err); n == 0 && state == "" && number == 0 && ctx.Err() == nil {
			return errEnded // as of inbox.Handle; an outage is found at the rollback
		}
		return err
	})
	return done && err == nil, err
}

// errEnded means that the work has ended the transaction, or has hidden that the server did.
var errEnded = fmt.Errorf("%w: the transaction was rolled back or committed before the handler returned: return the errors of statements, and leave the transaction open", writer.ErrNoTransaction)

// take returns the statements before and after the work of a retry. On MySQL and MariaDB the first only marks the row, because
// the second must find it: see mark.
func (p *Parking[Tx]) take(row *Parked) (before, after *sqltext.Statement) {
	remove := p.statement("DELETE FROM ")
	p.where(remove, Filter{IDs: []inbox.MessageID{row.ID}})
	if remove.Postgres() {
		return remove, nil
	}
	marked := -int64(1 + rand.IntN(999_999)) //nolint:gosec // no secret
	before = p.statement("UPDATE ").Add(" SET attempts = ").Int(marked)
	p.where(before, Filter{IDs: []inbox.MessageID{row.ID}})
	return before, remove.Add(" AND attempts = ").Int(marked)
}

// Failed stores the error of a parked message and the number of attempts, and forgets that messages of its key were chosen
// by Retry.
func (p *Parking[Tx]) Failed(ctx context.Context, row *Parked, cause error) error {
	return inbox.Transact(ctx, p.db, func(ctx context.Context, tx Tx) error {
		m := row.Message
		s := addError(p.statement("UPDATE ").Add(" SET error = "), cause).Add(", attempts = ").Int(int64(m.Attempt))
		p.where(s, Filter{IDs: []inbox.MessageID{row.ID}})
		if _, err := p.exec(ctx, tx, s); err != nil {
			return err
		}
		_, err := p.exec(ctx, tx, p.key(p.statement("UPDATE ").Add(" SET retry = false"), m.Topic, m.Partition, KeyOf(m)))
		return err
	})
}

// Check does for the table of parked messages what [inbox.Inbox.Check] does.
func (p *Parking[Tx]) Check(ctx context.Context) error {
	const columns = "consumer, source, message_id, topic, topic_partition, topic_offset, key_hash, event_type, aggregate_type, record, error, attempts, retry, parked_at"
	return inbox.Transact(ctx, p.in.DB(), func(ctx context.Context, tx Tx) error {
		_, err := p.exec(ctx, tx, p.statement("INSERT INTO ").Add(" ("+columns+") SELECT "+columns+" FROM ").Add(p.table).Add(" WHERE 1 = 0"))
		return err
	})
}
