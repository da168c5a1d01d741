package binlog

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/mysql"
)

// emitHeld hands on the rows of a transaction that has committed. If one cannot be decoded, those before it that still
// wait in the batch are taken back.
func (ss *session) emitHeld(ctx context.Context) error {
	clear(ss.schemas) // each transaction has its own table maps
	err := ss.src.held.each(func(raw []byte) error {
		if ss.tx.ordinal < ss.tx.skip { // the rows to skip may be millions, and a tick would replace the batch
			ss.src.lastTick.Store(time.Now().UnixNano())
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		return ss.emit(ctx, event{raw})
	})
	if err == nil || ctx.Err() != nil {
		return err
	}
	ss.takeBack()
	if _, transient := errors.AsType[*cdc.FixableError](err); transient { // the catalog could not be read: the next attempt continues behind these rows
		ss.src.next.part = ss.partial()
		return err
	}
	return undecodable(err)
}

// allSkipped returns an error if the transaction has fewer rows than were handed on before.
func (ss *session) allSkipped() error {
	if ss.tx.ordinal >= ss.tx.skip {
		return nil
	}
	return cdc.PositionError("other_history", startAnew,
		"transaction %s has %d rows, of which %d were published: the position belongs to another history of this server", ss.src.next.part.tx, ss.tx.ordinal, ss.src.next.part.rows)
}

// onePart refuses a second transaction of which only some rows are handed on, while another one has yet to come again:
// another server may have them in another order, and a position holds one.
func (ss *session) onePart(open bool) error {
	if due := ss.src.next.part; open && ss.tx.skip == 0 && due.rows > 0 {
		return cdc.PositionError("other_order", "read the server on which the relay was stopped, until it has published transaction "+due.tx+"; if it is gone, "+startAnew,
			"server sends transaction %s before transaction %s, of which %d rows were published: it has them in another order", ss.tx.id, due.tx, due.rows)
	}
	return nil
}

// flushFull hands the batch on if a transaction like the last one would not fit. A batch should end with a transaction,
// because a stop waits for that.
func (ss *session) flushFull(ctx context.Context) error {
	b, rows := ss.batch, int(ss.tx.ordinal)
	if b == nil || b.Rows() == 0 {
		return nil
	}
	if have := b.Rows(); have+rows <= batchRows && len(b.Arena)*(have+rows) <= batchBytes*have {
		return nil
	}
	return ss.flush(ctx)
}

// takeBack takes the rows of the open transaction out of the batch.
func (ss *session) takeBack() {
	b := ss.batch
	if b == nil || !ss.tx.placed {
		return
	}
	last := len(b.Txs) - 1
	ss.tx.ordinal = b.Txs[last].Ordinal
	b.Spans = b.Spans[:b.Txs[last].Row*len(b.Table.Columns)]
	b.Txs, b.ids = b.Txs[:last], b.ids[:last]
	if last == 0 {
		ss.drop()
	}
}

// emit decodes a held event of a transaction that has committed.
func (ss *session) emit(ctx context.Context, e event) error {
	if e.kind() == replication.TABLE_MAP_EVENT {
		return ss.learn(ctx, e)
	}
	s := ss.schemas[e.tableID()]
	if s == nil {
		return errors.New("read binlog: rows without their table map")
	}
	r, err := openRows(e, s)
	if err != nil {
		return err
	}
	var skipped batch // of no use but its memory
	for ; len(r.data) > 0; ss.tx.ordinal++ {
		if ss.tx.ordinal < ss.tx.skip {
			if r, skipped.Arena, skipped.Spans, err = s.next(r, skipped.Arena[:0], skipped.Spans[:0]); err != nil {
				return err
			}
			continue
		}
		b, err := ss.batchFor(ctx, s.table)
		if err != nil {
			return err
		}
		if r, b.Arena, b.Spans, err = s.next(r, b.Arena, b.Spans); err != nil {
			return err
		}
	}
	return nil
}

// learn takes a table map in. One that says the same as before keeps its Table, and with it all that was derived
// from it.
func (ss *session) learn(ctx context.Context, e event) (err error) {
	defer recovered(&err)
	name, err := e.tableName()
	if err != nil {
		return err
	}
	body := e.body()
	if old := ss.known[name]; old != nil && bytes.Equal(old.body[6:], body[6:]) { // behind the table id
		ss.schemas[e.tableID()] = old
		return ss.compareWithCatalog(ctx, old, e.tableID())
	}
	parsed, err := ss.parse(e)
	if err != nil {
		return err
	}
	t, ok := parsed.Event.(*replication.TableMapEvent)
	if !ok {
		return fmt.Errorf("read binlog: expected a table map, got %T", parsed.Event)
	}
	s, err := schemaOf(t, body, ss.charsets)
	if err != nil {
		return err
	}
	s.table.Schema, s.table.Name, _ = strings.Cut(mysql.ConfiguredName(ss.src.opts.Tables, ss.src.caseless, name), ".")
	if err := cmp.Or(ss.unversioned(ctx, s, t), ss.legible(s)); err != nil {
		return err
	}
	ss.known[name] = s
	ss.schemas[e.tableID()] = s
	return ss.compareWithCatalog(ctx, s, e.tableID())
}

// unversioned refuses rows of a table that keeps its history: MariaDB writes that as inserts. Where the columns of its period do not have
// their usual names, the catalog tells.
func (ss *session) unversioned(ctx context.Context, s *schema, t *replication.TableMapEvent) error {
	period, usual := 0, 0 // columns that may be of a period
	for i, c := range s.table.Columns {
		if micro := t.ColumnType[i] == gomysql.MYSQL_TYPE_TIMESTAMP2 && t.ColumnMeta[i] == 6; micro || t.ColumnType[i] == gomysql.MYSQL_TYPE_LONGLONG {
			period++
			if micro && (c.Name == "row_start" || c.Name == "row_end") {
				usual++
			}
		}
	}
	why := errors.New("table " + s.table.String() + " is system-versioned: the binlog holds each update of a row as one more insert")
	switch {
	case ss.src.flavor != cdc.MariaDB || period < 2:
		return nil
	case usual < 2:
		err := ss.src.refusedNow(ctx, s.table.String())
		stop, final := errors.AsType[*cdc.StopError](err)
		if err != nil && !final {
			return cdc.Fixable("see why the database does not answer", "read table %s: %w", s.table, err)
		}
		if !final || stop.Reason != mysql.SystemVersioned {
			return nil // it may have been dropped or renamed since
		}
	}
	return cdc.Stop(cdc.ClassRuntime, mysql.SystemVersioned, why, mysql.FixSystemVersioned(s.table.Schema, s.table.Name)+"; "+startAnew)
}

// refusedNow is why a start would refuse the table.
func (s *Source) refusedNow(ctx context.Context, name string) error {
	db, _, err := mysql.Connect(ctx, &s.opts.Options)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	return mysql.CheckTables(ctx, db, []string{name}, s.caseless)
}

// legible refuses rows if a column that is used has an unknown character set. Verify knows which columns are used and
// reports other schema errors itself.
func (ss *session) legible(s *schema) error {
	if !s.foreign {
		return nil
	}
	why, fix := errors.New("a column of "+s.table.String()+" is in a character set that the relay does not know"), "convert it to utf8mb4"
	if verify := ss.src.opts.Verify; verify != nil {
		stop, ok := errors.AsType[*cdc.StopError](verify(s.table))
		if !ok || stop.Reason != illegible {
			return nil
		}
		why, fix = stop.Cause, stop.Fix
	}
	return content(illegible, fix, "%w", why)
}

// illegible is the reason of a column in an unknown character set.
const illegible = "charset"

// batchFor returns the batch that takes the next row of t.
func (ss *session) batchFor(ctx context.Context, t *cdc.Table) (*batch, error) {
	if b := ss.batch; b != nil && (b.Table != t || b.Rows() >= batchRows || len(b.Arena) >= batchBytes) {
		b.Open = ss.tx.ordinal > ss.tx.skip
		if err := ss.onePart(b.Open); err != nil {
			return nil, err
		}
		if err := ss.flush(ctx); err != nil {
			return nil, err
		}
		ss.tx.placed = false
	}
	if ss.batch == nil {
		ss.batch = ss.src.batches.take(t)
		ss.tx.placed = false
	}
	if !ss.tx.placed {
		ss.batch.Txs = append(ss.batch.Txs, cdc.Tx{Time: ss.tx.micros, Row: ss.batch.Rows(), Ordinal: ss.tx.ordinal})
		ss.batch.ids = append(ss.batch.ids, ss.tx.id)
		ss.tx.placed = true
	}
	return ss.batch, nil
}

// compareWithCatalog reads the table from the catalog if rows of s lack a column that is needed. So the router knows whether the table
// still lacks it, which stops the relay, or has it by now. Once the table is altered its table maps have another id.
func (ss *session) compareWithCatalog(ctx context.Context, s *schema, id uint64) error {
	if s.compared && (s.table.Now == nil || s.id == id) {
		return nil
	}
	verify, rows := ss.src.opts.Verify, *s.table
	rows.Now = nil
	if s.compared = verify == nil || cdc.ReasonOf(verify(&rows)) != cdc.MissingColumn; s.compared {
		return nil
	}
	now, err := ss.src.tableNow(ctx, s.table.String())
	if stop, final := errors.AsType[*cdc.StopError](err); final {
		return stop
	}
	if err != nil {
		return cdc.Fixable("see why the database does not answer", "read the columns of %s: %w", s.table, err)
	}
	s.compared, s.id = true, id
	if now != nil && (s.table.Now == nil || !slices.Equal(s.table.Now.Columns, now.Columns)) {
		rows.Now = now
		s.table = &rows
	}
	return nil
}

// tableNow reads a table by its configured name; nil: it does not exist.
func (s *Source) tableNow(ctx context.Context, name string) (*cdc.Table, error) {
	db, _, err := mysql.Connect(ctx, &s.opts.Options)
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }()
	tables, err := mysql.ReadTables(ctx, db, []string{name}, s.caseless)
	return tables[name], err
}
