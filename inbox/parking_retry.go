package inbox

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"time"

	"github.com/cdc-relay/cdc-relay/inbox/internal/sqltext"
)

// Filter chooses parked messages of the consumer. Fields that are zero are not compared; several must all match. The zero
// Filter chooses all.
type Filter struct {
	All           bool // says that a Filter without conditions is meant; [Parking.Drop] wants it
	Topic         string
	Partition     *int32
	Type          string
	AggregateType string
	IDs           []MessageID // as the table has them, so with the sources that [WithSource] returns; an empty slice that is not nil chooses none
	Key           []byte      // of the record
	Before        time.Time   // parked before
	Error         string      // is part of the error's text; messages behind others have none
}

// Parked is a parked message.
type Parked struct {
	ID      MessageID
	Message *Message // a copy of its own, with Attempt as it was; bytes of its texts that are not UTF-8 are replaced
	Error   string   // of the last attempt, at most 4096 bytes; "" if it waits behind another one of its key
	Retry   bool     // [Parking.Retry] chose it, and it was not tried yet
	At      time.Time

	broken error // it cannot be decoded: Message is empty
}

// List returns the parked messages, by source and ID, in pages of 100. It ends at the first error, except that a message that
// cannot be decoded has its ID and an error, and the others follow: to drop it, choose its ID. Messages that come and go
// meanwhile may be there or not.
func (p *Parking[Tx]) List(ctx context.Context, f Filter) iter.Seq2[*Parked, error] {
	return func(yield func(*Parked, error) bool) {
		for after := (MessageID{}); ; {
			s := p.parked()
			p.where(s, f)
			if after != (MessageID{}) {
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
	err = Transact(ctx, p.db, func(ctx context.Context, tx Tx) (err error) {
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
	err = Transact(ctx, p.db, func(ctx context.Context, tx Tx) (err error) {
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
func (p *Parking[Tx]) First(ctx context.Context, topic string, partition int32, key ParkingKey) (*Parked, error) {
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
// reports false. Errors are those of [Inbox.Handle]. Call [Parking.Failed] if fn will not be tried again.
func (p *Parking[Tx]) Redo(ctx context.Context, row *Parked, fn func(context.Context, Tx) error) (done bool, err error) {
	err = Transact(ctx, p.in.db, func(ctx context.Context, tx Tx) error {
		take, remove := p.take(row)
		n, err := p.exec(ctx, tx, take)
		if done = err == nil && n == 1; !done {
			return err
		}
		if err := fn(ctx, tx); err != nil || remove == nil {
			return err
		}
		n, err = p.exec(ctx, tx, remove)
		if errors.Is(err, sql.ErrTxDone) || (err == nil && n == 0) {
			return errEnded
		}
		return err
	})
	return done && err == nil, err
}

// take returns the statements before and after the work of a retry. On MySQL and MariaDB the first only marks the row, because
// the second must find it: see mark.
func (p *Parking[Tx]) take(row *Parked) (before, after *sqltext.Statement) {
	remove := p.statement("DELETE FROM ")
	p.where(remove, Filter{IDs: []MessageID{row.ID}})
	if remove.Postgres() {
		return remove, nil
	}
	marked := -int64(newMark())
	before = p.statement("UPDATE ").Add(" SET attempts = ").Int(marked)
	p.where(before, Filter{IDs: []MessageID{row.ID}})
	return before, remove.Add(" AND attempts = ").Int(marked)
}

// Failed stores the error of a parked message and the number of attempts, and forgets that messages of its key were chosen
// by Retry.
func (p *Parking[Tx]) Failed(ctx context.Context, row *Parked, cause error) error {
	return Transact(ctx, p.db, func(ctx context.Context, tx Tx) error {
		m := row.Message
		s := addError(p.statement("UPDATE ").Add(" SET error = "), cause).Add(", attempts = ").Int(int64(m.Attempt))
		p.where(s, Filter{IDs: []MessageID{row.ID}})
		if _, err := p.exec(ctx, tx, s); err != nil {
			return err
		}
		_, err := p.exec(ctx, tx, p.key(p.statement("UPDATE ").Add(" SET retry = false"), m.Topic, m.Partition, KeyOf(m)))
		return err
	})
}

// where adds the filter's conditions.
func (p *Parking[Tx]) where(s *sqltext.Statement, f Filter) {
	s.Add(" WHERE consumer = ").Text(p.in.consumer)
	for _, c := range []struct{ column, value string }{{"topic", f.Topic}, {"event_type", f.Type}, {"aggregate_type", f.AggregateType}} {
		if c.value != "" {
			s.Add(" AND " + c.column + " = ").Text(c.value)
		}
	}
	if f.Partition != nil {
		s.Add(" AND topic_partition = ").Int(int64(*f.Partition))
	}
	if f.Key != nil {
		key := hashKey(f.Key)
		s.Add(" AND key_hash = ").Bytes(key[:])
	}
	if !f.Before.IsZero() {
		s.Add(" AND parked_at < ").Time(f.Before)
	}
	if f.Error != "" {
		s.Add(" AND position(").Text(f.Error).Add(" IN error) > 0")
	}
	if f.IDs != nil {
		s.Add(" AND ")
		chooseIDs(s, f.IDs)
	}
}

// chooseIDs adds the condition that a row's ID is one of these. PostgreSQL does not take very many in a list.
func chooseIDs(s *sqltext.Statement, ids []MessageID) {
	switch {
	case len(ids) == 0:
		s.Add("1 = 0")
	case len(ids) > 1 && s.Postgres():
		sources, texts := columns(ids)
		s.Add("(source, message_id) IN (SELECT * FROM unnest(").Array(sources).Add(", ").Array(texts).Add("))")
	default:
		for i, id := range ids {
			s.Add([2]string{"(source, message_id) IN ((", "), ("}[min(i, 1)]).Texts(id.Source, id.ID)
		}
		s.Add("))")
	}
}

// parked begins a query for read. Times are numbers, because drivers of MySQL do not always parse them.
func (p *Parking[Tx]) parked() *sqltext.Statement {
	s := sqltext.New(p.in.db.Dialect(), "SELECT source, message_id, record, error, attempts, retry, ")
	if s.Postgres() {
		s.Add("(extract(epoch FROM parked_at) * 1000000)::bigint FROM ")
	} else {
		s.Add("CAST(UNIX_TIMESTAMP(parked_at) * 1000000 AS SIGNED) FROM ")
	}
	return s.Add(p.table)
}

func (p *Parking[Tx]) read(ctx context.Context, s *sqltext.Statement) (found []*Parked, err error) {
	err = Transact(ctx, p.db, func(ctx context.Context, tx Tx) error {
		found = nil
		return p.query(ctx, tx, s, func(rows Rows) error {
			row, record, text, attempts, at := &Parked{Message: &Message{}}, []byte(nil), (*string)(nil), 0, int64(0)
			if err := rows.Scan(&row.ID.Source, &row.ID.ID, &record, &text, &attempts, &row.Retry, &at); err != nil {
				return err
			}
			if err := json.Unmarshal(record, row.Message); err != nil {
				row.Message, row.broken = &Message{}, fmt.Errorf("decode parked message %s of %s: %w: drop it by its ID", row.ID.ID, row.ID.Source, err)
			}
			row.Message.Attempt, row.At = attempts, time.UnixMicro(at)
			if text != nil {
				row.Error = *text
			}
			found = append(found, row)
			return nil
		})
	})
	return found, err
}

// Check does for the table of parked messages what [Inbox.Check] does.
func (p *Parking[Tx]) Check(ctx context.Context) error {
	return p.in.check(ctx, p.table, "consumer, source, message_id, topic, topic_partition, topic_offset, key_hash, event_type, aggregate_type, record, error, attempts, retry, parked_at")
}
