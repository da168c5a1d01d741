package parking

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/cdc-relay/cdc-relay/inbox"
	"github.com/cdc-relay/cdc-relay/inbox/internal/sqltext"
	"github.com/cdc-relay/cdc-relay/writer"
)

func (p *Parking[Tx]) statement(before string) *sqltext.Statement {
	return sqltext.New(p.in.DB().Dialect(), before).Add(p.table)
}

// key adds the condition that rows are of a key.
func (p *Parking[Tx]) key(s *sqltext.Statement, topic string, partition int32, key Key) *sqltext.Statement {
	return s.Add(" WHERE consumer = ").Text(p.in.Consumer()).Add(" AND topic = ").Text(topic).
		Add(" AND topic_partition = ").Int(int64(partition)).Add(" AND key_hash = ").Bytes(key[:])
}

func (p *Parking[Tx]) exec(ctx context.Context, tx Tx, s *sqltext.Statement) (int64, error) {
	query, args := s.SQL()
	n, err := p.in.DB().Exec(ctx, tx, query, args...)
	if err != nil {
		return n, p.failed("write", err)
	}
	return n, nil
}

// query calls each with every row.
func (p *Parking[Tx]) query(ctx context.Context, tx Tx, s *sqltext.Statement, each func(writer.Rows) error) error {
	query, args := s.SQL()
	rows, err := p.in.DB().Query(ctx, tx, query, args...)
	if err != nil {
		return p.readError(err)
	}
	for rows.Next() {
		if err := each(rows); err != nil {
			return errors.Join(p.readError(err), rows.Close())
		}
	}
	return p.readError(errors.Join(rows.Err(), rows.Close()))
}

func (p *Parking[Tx]) readError(err error) error {
	if err == nil {
		return nil
	}
	return p.failed("read", err)
}

// number returns a query's only number.
func (p *Parking[Tx]) number(ctx context.Context, tx Tx, s *sqltext.Statement) (n int64, err error) {
	err = p.query(ctx, tx, s, func(rows writer.Rows) error { return rows.Scan(&n) })
	return n, err
}

// where adds the filter's conditions.
func (p *Parking[Tx]) where(s *sqltext.Statement, f Filter) {
	s.Add(" WHERE consumer = ").Text(p.in.Consumer())
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
func chooseIDs(s *sqltext.Statement, ids []inbox.MessageID) {
	switch {
	case len(ids) == 0:
		s.Add("1 = 0")
	case len(ids) > 1 && s.Postgres():
		sources, texts := make([]string, len(ids)), make([]string, len(ids))
		for i, id := range ids {
			sources[i], texts[i] = id.Source, id.ID
		}
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
	s := sqltext.New(p.in.DB().Dialect(), "SELECT source, message_id, record, error, attempts, retry, ")
	if s.Postgres() {
		s.Add("(extract(epoch FROM parked_at) * 1000000)::bigint FROM ")
	} else {
		s.Add("CAST(UNIX_TIMESTAMP(parked_at) * 1000000 AS SIGNED) FROM ")
	}
	return s.Add(p.table)
}

func (p *Parking[Tx]) read(ctx context.Context, s *sqltext.Statement) (found []*Parked, err error) {
	err = inbox.Transact(ctx, p.db, func(ctx context.Context, tx Tx) error {
		found = nil
		return p.query(ctx, tx, s, func(rows writer.Rows) error {
			row, record, text, attempts, at := &Parked{Message: &inbox.Message{}}, []byte(nil), (*string)(nil), 0, int64(0)
			if err := rows.Scan(&row.ID.Source, &row.ID.ID, &record, &text, &attempts, &row.Retry, &at); err != nil {
				return err
			}
			if err := json.Unmarshal(record, row.Message); err != nil {
				row.Message, row.broken = &inbox.Message{}, fmt.Errorf("decode parked message %s of %s: %w: drop it by its ID", row.ID.ID, row.ID.Source, err)
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

// failed describes an error of a statement.
func (p *Parking[Tx]) failed(op string, err error) error {
	if errors.Is(err, inbox.ErrDatabase) {
		return err
	}
	return &inbox.DatabaseError{Op: op + " " + p.table, Err: err, Fix: inbox.Fix(p.table, err)}
}
