package inbox

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/cdc-relay/cdc-relay/writer"
)

// HandleBatch records messages of one partition and calls fn once with those that are new, in their order, in one
// transaction. It returns the others, the repeats; fn is not called if all are. If it fails, none is handled: give them to
// [Inbox.Handle] one by one then, so that one bad message does not fail the others. Package kgoinbox does all that. What Handle says about
// fn holds here, too: on MySQL and MariaDB DDL, TRUNCATE and GRANT commit all records at once.
func (in *Inbox[Tx]) HandleBatch(ctx context.Context, ms []*Message, fn func(ctx context.Context, tx Tx, u *writer.Unit, ms []*Message) error) (repeats []*Message, err error) {
	if len(ms) == 0 {
		return nil, nil
	}
	byID := make(map[MessageID]*Message, len(ms))
	ids := make([]MessageID, 0, len(ms))
	for _, m := range ms {
		id, err := m.identify(in.source)
		if err != nil {
			return nil, err
		}
		if byID[id] == nil { // the first of two is handled
			byID[id] = m
			ids = append(ids, id)
		}
	}
	// In one order everywhere: two batches that insert the same IDs in different orders would wait for each other.
	slices.SortFunc(ids, func(a, b MessageID) int { return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.ID, b.ID)) })
	err = transactUnit(ctx, in.db, in.events, in.turn, func(ctx context.Context, tx Tx, u *writer.Unit) error {
		marked := newMark()
		inserted, err := in.insertAll(ctx, tx, ids, marked)
		if err != nil {
			return err
		}
		isNew := make(map[*Message]bool, len(inserted))
		for _, id := range inserted {
			isNew[byID[id]] = true
		}
		var first []*Message
		repeats = nil
		for _, m := range ms {
			if !isNew[m] {
				repeats = append(repeats, m)
				continue
			}
			first = append(first, m)
			delete(isNew, m)
		}
		if len(first) == 0 {
			return nil
		}
		if err := fn(ctx, tx, u, first); err != nil {
			return err
		}
		return in.verify(ctx, tx, inserted[0], marked)
	})
	if err != nil {
		return nil, err
	}
	return repeats, nil
}

// insertRows bounds a statement of MySQL and MariaDB, which with the longest IDs has 2 KB a row: MariaDB takes 16 MiB.
const insertRows = 1000

// insertAll returns the IDs that are new. PostgreSQL takes all in one statement. MySQL and MariaDB take insertRows if all are
// new; a repeat fails and undoes that statement, and each of its IDs gets a statement of its own.
func (in *Inbox[Tx]) insertAll(ctx context.Context, tx Tx, ids []MessageID, marked mark) ([]MessageID, error) {
	if in.db.Dialect() == writer.Postgres {
		return in.insertArrays(ctx, tx, ids)
	}
	var inserted []MessageID
	for some := range slices.Chunk(ids, insertRows) {
		first, err := in.insertSome(ctx, tx, some, marked)
		if err != nil {
			return nil, err
		}
		inserted = append(inserted, first...)
	}
	return inserted, nil
}

func (in *Inbox[Tx]) insertSome(ctx context.Context, tx Tx, ids []MessageID, marked mark) ([]MessageID, error) {
	query, args := in.values(ids, marked).SQL()
	_, err := in.db.Exec(ctx, tx, query, args...)
	if err == nil {
		return ids, nil
	}
	if _, number := writer.ServerError(err); number != duplicate {
		return nil, databaseError("insert into "+in.table, in.table, err)
	}
	var inserted []MessageID
	for _, id := range ids {
		first, err := in.insert(ctx, tx, id, marked)
		if err != nil {
			return nil, err
		}
		if first {
			inserted = append(inserted, id)
		}
	}
	return inserted, nil
}

func (in *Inbox[Tx]) insertArrays(ctx context.Context, tx Tx, ids []MessageID) (inserted []MessageID, err error) {
	sources, texts := columns(ids)
	query, args := in.statement("INSERT INTO ", " (consumer, source, message_id) SELECT ").Text(in.consumer).
		Add("::text, source, message_id FROM unnest(").Array(sources).Add(", ").Array(texts).
		Add(") AS m (source, message_id) ON CONFLICT DO NOTHING RETURNING source, message_id").SQL()
	rows, err := in.db.Query(ctx, tx, query, args...)
	if err != nil {
		return nil, databaseError("insert into "+in.table, in.table, err)
	}
	for rows.Next() {
		var id MessageID
		if err := rows.Scan(&id.Source, &id.ID); err != nil {
			return nil, errors.Join(databaseError("insert into "+in.table, in.table, err), rows.Close())
		}
		inserted = append(inserted, id)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return nil, databaseError("insert into "+in.table, in.table, err)
	}
	return inserted, nil
}

func columns(ids []MessageID) (sources, texts []string) {
	for _, id := range ids {
		sources, texts = append(sources, id.Source), append(texts, id.ID)
	}
	return sources, texts
}
