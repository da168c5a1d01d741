package binlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-mysql-org/go-mysql/replication"
	"github.com/google/uuid"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// A batch is handed on when everything that was read has been taken in (so at low load each transaction goes at
// once), and when it reaches these bounds, which keep memory flat: all of a batch stays in memory until its last
// row is acknowledged.
const (
	batchRows  = 256
	batchBytes = 64 << 10
)

// transaction is the one whose events are being read.
type transaction struct {
	id gtid
	// open: its GTID has come, its end has not. begun: BEGIN has come too.
	open, begun bool
	micros      int64 // commit time, by the clock of the server where it was committed first
	rows        bool  // of ours are held
	// ours are the table ids of tracked tables in the current statement.
	ours map[uint64]bool
	// points are the sizes of held at the savepoints, by name.
	points  map[string]int64
	ordinal uint32 // rows handed on
	placed  bool   // the batch knows it
}

// take takes an event in.
func (ss *session) take(ctx context.Context, e event) error {
	switch kind := e.kind(); kind {
	case replication.WRITE_ROWS_EVENTv1, replication.WRITE_ROWS_EVENTv2, replication.MARIADB_WRITE_ROWS_COMPRESSED_EVENT_V1:
		return ss.inserted(e)
	case replication.TABLE_MAP_EVENT:
		return ss.tableMap(e)
	case replication.GTID_EVENT, replication.GTID_TAGGED_LOG_EVENT, replication.MARIADB_GTID_EVENT:
		return ss.begin(e)
	case replication.XID_EVENT:
		return ss.commit(ctx)
	case replication.QUERY_EVENT, replication.MARIADB_QUERY_COMPRESSED_EVENT:
		return ss.query(ctx, e)
	case replication.TRANSACTION_PAYLOAD_EVENT:
		return ss.payload.each(e.body(), func(inner event) error { return ss.take(ctx, inner) })
	case replication.FORMAT_DESCRIPTION_EVENT:
		return ss.format(e)
	case replication.XA_PREPARE_LOG_EVENT:
		return ss.prepared(ctx, e)
	case replication.ANONYMOUS_GTID_EVENT:
		return cdc.Stop(cdc.ClassRuntime, "gtid_mode", errors.New("log holds a transaction without a GTID: gtid_mode is not ON: SET PERSIST gtid_mode = ON; then publish from the table what was committed meanwhile, and move the position past it with `cdc-relay position set`"))
	case replication.INCIDENT_EVENT:
		return positionError("incident", "server has written an INCIDENT into its log (%s): events may be missing from it; publish from the outbox table what consumers miss, then move the position past it with `cdc-relay position set`", printable(e.body()))
	case replication.EXECUTE_LOAD_QUERY_EVENT:
		return ss.load(e)
	default:
		return ss.other(e, kind)
	}
}

// other leaves out what says nothing about inserted rows, and refuses what it does not know.
func (ss *session) other(e event, kind replication.EventType) error {
	switch kind { //nolint:exhaustive // the rest is not known
	case replication.ROTATE_EVENT, replication.STOP_EVENT, replication.HEARTBEAT_EVENT, replication.HEARTBEAT_LOG_EVENT_V2,
		replication.PREVIOUS_GTIDS_EVENT, replication.ROWS_QUERY_EVENT, replication.INTVAR_EVENT, replication.RAND_EVENT,
		replication.USER_VAR_EVENT, replication.BEGIN_LOAD_QUERY_EVENT, replication.TRANSACTION_CONTEXT_EVENT,
		replication.VIEW_CHANGE_EVENT, replication.MARIADB_ANNOTATE_ROWS_EVENT, replication.MARIADB_BINLOG_CHECKPOINT_EVENT,
		replication.MARIADB_GTID_LIST_EVENT, replication.MARIADB_START_ENCRYPTION_EVENT,
		replication.UPDATE_ROWS_EVENTv1, replication.UPDATE_ROWS_EVENTv2, replication.PARTIAL_UPDATE_ROWS_EVENT,
		replication.DELETE_ROWS_EVENTv1, replication.DELETE_ROWS_EVENTv2,
		replication.MARIADB_UPDATE_ROWS_COMPRESSED_EVENT_V1, replication.MARIADB_DELETE_ROWS_COMPRESSED_EVENT_V1:
		return nil // an outbox is append-only: what others do to its rows says nothing new
	}
	if e.ignorable() {
		return nil
	}
	return cdc.Stop(cdc.ClassRuntime, "unknown_event", fmt.Errorf("log holds an event of kind %d, which this version does not know: use a newer cdc-relay", kind))
}

// format takes the description of a log file in: from here on its events carry checksums or none. They are looked
// at where events are cut, so the parser is told that there are none.
func (ss *session) format(e event) error {
	parsed, err := ss.parse(e)
	if err != nil {
		return err
	}
	if f, ok := parsed.Event.(*replication.FormatDescriptionEvent); ok {
		ss.checksums = f.ChecksumAlgorithm == replication.BINLOG_CHECKSUM_ALG_CRC32
		f.ChecksumAlgorithm = replication.BINLOG_CHECKSUM_ALG_OFF
	}
	return nil
}

func (ss *session) parse(e event) (*replication.BinlogEvent, error) {
	parsed, err := ss.parser.Parse(e.raw)
	if err != nil {
		return nil, fmt.Errorf("read the log: %w", err)
	}
	return parsed, nil
}

// begin starts a transaction. The server sends whole ones, so an open one before it was DDL, which ends by itself.
func (ss *session) begin(e event) error {
	parsed, err := ss.parse(e)
	if err != nil {
		return err
	}
	tx := transaction{open: true, micros: int64(e.seconds()) * 1e6}
	switch g := parsed.Event.(type) {
	case *replication.GTIDEvent:
		err = tx.mysql(g)
	case *replication.GtidTaggedLogEvent:
		err = tx.mysql(&g.GTIDEvent)
	case *replication.MariadbGTIDEvent:
		tx.id = gtid{domain: g.GTID.DomainID, server: g.GTID.ServerID, number: g.GTID.SequenceNumber}
		tx.begun = !g.IsStandalone() // its GTID event stands for BEGIN
	}
	if err != nil {
		return fmt.Errorf("read the log: %w", err)
	}
	tx.ours, tx.points = ss.tx.ours, ss.tx.points
	clear(tx.ours)
	clear(tx.points)
	ss.tx = tx
	ss.src.held.reset()
	return nil
}

func (tx *transaction) mysql(g *replication.GTIDEvent) error {
	sid, err := uuid.FromBytes(g.SID)
	tx.id = gtid{sid: sid, tag: g.Tag, number: uint64(g.GNO)}
	if g.OriginalCommitTimestamp != 0 { // where it was committed first: the same on every server
		tx.micros = int64(g.OriginalCommitTimestamp)
	}
	return err
}

// tableMap notes whether the rows that follow are of a tracked table. Of others nothing more is decoded.
func (ss *session) tableMap(e event) error {
	name, err := e.tableName()
	if err != nil {
		return err
	}
	id := e.tableID()
	if !ss.src.tracked(name) {
		delete(ss.tx.ours, id)
		return nil
	}
	if ss.tx.ours == nil {
		ss.tx.ours = map[uint64]bool{}
	}
	ss.tx.ours[id] = true
	return ss.src.held.add(e.raw)
}

func (ss *session) inserted(e event) error {
	if !ss.tx.ours[e.tableID()] {
		ss.src.metrics.filtered.WithLabelValues(otherTable).Inc()
		return nil
	}
	ss.tx.rows = true
	if ss.src.flavor == MariaDB {
		// Its log has whole seconds, and of the commit other ones on a replica: an event must not change by a
		// failover. Those of the rows stay.
		ss.tx.micros = int64(e.seconds()) * 1e6
	}
	return ss.src.held.add(e.raw)
}

// otherTable is the table label of all tables that are not ours.
const otherTable = "other"

// query: what is not a row. BEGIN, COMMIT and ROLLBACK; savepoints; DDL, which is a transaction by itself; and
// statements that should have been rows.
func (ss *session) query(ctx context.Context, e event) error {
	parsed, err := ss.parse(e)
	if err != nil {
		return err
	}
	q, ok := parsed.Event.(*replication.QueryEvent)
	if !ok {
		return nil
	}
	text := uncommented(string(q.Query))
	word, rest, _ := strings.Cut(text, " ")
	switch strings.ToUpper(strings.TrimRight(word, ";")) {
	case "BEGIN":
		ss.tx.begun = true
		return nil
	case "COMMIT":
		return ss.commit(ctx)
	case "ROLLBACK":
		if to, partial := savepoint(text); partial {
			return ss.rewind(to)
		}
		return ss.rollback()
	case "SAVEPOINT":
		if ss.tx.points == nil {
			ss.tx.points = map[string]int64{}
		}
		ss.tx.points[pointName(rest)] = ss.src.held.size()
		return nil
	case "XA":
		return ss.xa(strings.ToUpper(rest))
	case "RELEASE", "SET", "USE":
		return nil
	}
	if ss.tx.begun {
		return ss.statement(string(q.Schema), text)
	}
	return ss.end() // DDL
}

// uncommented is a statement without white space and comments before it.
func uncommented(text string) string {
	for {
		text = strings.TrimLeft(text, " \t\r\n(")
		var end string
		switch {
		case strings.HasPrefix(text, "/*") && !strings.HasPrefix(text, "/*!"):
			end = "*/"
		case strings.HasPrefix(text, "-- "), strings.HasPrefix(text, "#"):
			end = "\n"
		default:
			return text
		}
		_, rest, found := strings.Cut(text, end)
		if !found {
			return ""
		}
		text = rest
	}
}

// savepoint returns the name in ROLLBACK [WORK] TO [SAVEPOINT] name.
func savepoint(text string) (name string, partial bool) {
	rest := strings.TrimSpace(text[len("ROLLBACK"):])
	for _, word := range []string{"WORK", "TO"} {
		if len(rest) > len(word) && strings.EqualFold(rest[:len(word)], word) && rest[len(word)] == ' ' {
			rest, partial = strings.TrimSpace(rest[len(word):]), word == "TO"
		}
	}
	if !partial {
		return "", false
	}
	if word := "SAVEPOINT "; len(rest) > len(word) && strings.EqualFold(rest[:len(word)], word) {
		rest = rest[len(word):]
	}
	return pointName(rest), true
}

// pointName is a savepoint's name without quotes; the server compares them without case.
func pointName(text string) string {
	name := strings.TrimRight(strings.TrimSpace(text), "; ")
	return strings.ToLower(strings.ReplaceAll(strings.Trim(name, "`"), "``", "`"))
}

// rewind forgets the rows since a savepoint. One that is not known was set before anything of ours.
func (ss *session) rewind(to string) error {
	ss.src.held.rewind(ss.tx.points[to])
	return nil
}

func (ss *session) rollback() error {
	ss.tx.rows = false
	return ss.end()
}

// xa: XA START is followed by rows that come at PREPARE, before anyone knows whether they will be committed.
func (ss *session) xa(rest string) error {
	switch {
	case strings.HasPrefix(rest, "START"), strings.HasPrefix(rest, "BEGIN"):
		ss.tx.begun = true
		return nil
	case strings.HasPrefix(rest, "COMMIT"), strings.HasPrefix(rest, "ROLLBACK"):
		return ss.end() // of what was prepared in another transaction
	}
	return nil
}

// prepared ends a transaction by XA PREPARE; an octet 1 says that it was committed in one phase.
func (ss *session) prepared(ctx context.Context, e event) error {
	if body := e.body(); len(body) > 0 && body[0] == 1 {
		return ss.commit(ctx)
	}
	if ss.tx.rows {
		return cdc.Stop(cdc.ClassRuntime, "xa", fmt.Errorf(
			"transaction %s has written to an outbox table under XA: its rows are in the log before anyone knows whether it commits, so they cannot be published in order: append events outside of XA transactions; publish from the table what was committed, then move the position past it with `cdc-relay position set`", ss.tx.id.text(ss.src.flavor)))
	}
	return ss.end()
}

// load looks at a LOAD DATA that was logged as a statement: a header of 26 octets, with the length of the schema's
// name in octet 8 and that of the status variables in 11, these variables, the name, a zero, the text.
func (ss *session) load(e event) error {
	b := e.body()
	if len(b) < 26 {
		return fmt.Errorf("decode LOAD DATA: %w", errTruncated)
	}
	schema := 26 + int(b[11]) + int(b[12])<<8
	text := schema + int(b[8]) + 1
	if text > len(b) {
		return fmt.Errorf("decode LOAD DATA: %w", errTruncated)
	}
	return ss.statement(string(b[schema:text-1]), uncommented(string(b[text:])))
}

// statement refuses an INSERT into a tracked table that was logged as a statement, not as rows.
func (ss *session) statement(schema, text string) error {
	lower := strings.ToLower(text)
	if !strings.HasPrefix(lower, "insert") && !strings.HasPrefix(lower, "replace") && !strings.HasPrefix(lower, "load") && !strings.HasPrefix(lower, "with") {
		return nil
	}
	for _, name := range ss.src.opts.Tables {
		database, table, _ := strings.Cut(strings.ToLower(name), ".")
		mentioned := strings.Contains(lower, table) && (strings.EqualFold(schema, database) || strings.Contains(lower, database))
		if mentioned {
			return cdc.Stop(cdc.ClassRuntime, "statement_format", fmt.Errorf(
				"transaction %s holds a statement in place of rows, which seems to write to %s: binlog_format of the session that ran it is not ROW: have it changed (SET PERSIST binlog_format = ROW; on MariaDB SET GLOBAL, and sessions anew); publish from the table what it wrote, then move the position past it with `cdc-relay position set`", ss.tx.id.text(ss.src.flavor), name))
		}
	}
	return nil
}

// commit hands the transaction's rows on.
func (ss *session) commit(ctx context.Context) error {
	if !ss.tx.open {
		return errors.New("read the log: the end of a transaction without its beginning")
	}
	if ss.tx.rows {
		if err := ss.src.held.each(func(raw []byte) error { return ss.emit(ctx, event{raw}) }); err != nil {
			return err
		}
		if ss.tx.ordinal > 0 { // not all taken back to a savepoint
			ss.src.commit = ss.tx.id
		}
	}
	return ss.end()
}

// end adds the transaction to the position: nothing of it is left to hand on.
func (ss *session) end() error {
	if !ss.tx.open {
		return nil
	}
	s := ss.src
	ss.tx.open, ss.tx.begun = false, false
	s.held.reset()
	s.received.add(ss.tx.id)
	s.marks.seen(ss.tx.id)
	id := ss.tx.id
	s.lastSeen.Store(&id)
	return nil
}

// emit decodes a held event of a transaction that has committed.
func (ss *session) emit(ctx context.Context, e event) error {
	if e.kind() == replication.TABLE_MAP_EVENT {
		return ss.learn(e)
	}
	s := ss.schemas[e.tableID()]
	if s == nil {
		return errors.New("read the log: rows without their table map")
	}
	r, err := openRows(e, s)
	if err != nil {
		return err
	}
	if s.general {
		return ss.emitGeneral(ctx, e, s)
	}
	for len(r.data) > 0 {
		b, err := ss.batchFor(ctx, s.table)
		if err != nil {
			return err
		}
		if r, b.Arena, b.Spans, err = s.next(r, b.Arena, b.Spans); err != nil {
			return err
		}
		ss.tx.ordinal++
	}
	return nil
}

// learn takes a table map in. One that says the same as before keeps its Table, and with it all that was derived
// from it.
func (ss *session) learn(e event) error {
	name, err := e.tableName()
	if err != nil {
		return err
	}
	body := e.body()
	if old := ss.known[name]; old != nil && bytes.Equal(old.body[6:], body[6:]) && !old.general { // behind the table id
		ss.schemas[e.tableID()] = old
		return nil
	}
	parsed, err := ss.parse(e)
	if err != nil {
		return err
	}
	t, ok := parsed.Event.(*replication.TableMapEvent)
	if !ok {
		return errors.New("read the log: a table map that is none")
	}
	s, err := schemaOf(t, body, ss.charsets)
	if err != nil {
		return err
	}
	if old := ss.known[name]; old != nil && bytes.Equal(old.body[6:], body[6:]) {
		s = old // go-mysql wants to see the map again, its meaning is the same
	}
	ss.known[name] = s
	clear(ss.schemas)
	ss.schemas[e.tableID()] = s
	return nil
}

// emitGeneral has go-mysql decode rows with columns whose encoding is involved.
func (ss *session) emitGeneral(ctx context.Context, e event, s *schema) error {
	parsed, err := ss.parse(e)
	if err != nil {
		return err
	}
	decoded, ok := parsed.Event.(*replication.RowsEvent)
	if !ok {
		return errors.New("read the log: rows that are none")
	}
	for _, values := range decoded.Rows {
		b, err := ss.batchFor(ctx, s.table)
		if err != nil {
			return err
		}
		if b.Arena, b.Spans, err = s.generalRow(values, b.Arena, b.Spans); err != nil {
			return err
		}
		ss.tx.ordinal++
	}
	return nil
}

// batchFor returns the batch that takes the next row of t.
func (ss *session) batchFor(ctx context.Context, t *cdc.Table) (*cdc.Batch, error) {
	if b := ss.batch; b != nil && (b.Table != t || b.Rows() >= batchRows || len(b.Arena) >= batchBytes) {
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
		ss.tx.placed = true
	}
	return ss.batch, nil
}

// printable is text from the log, without what a terminal would take amiss.
func printable(octets []byte) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, string(octets[:min(len(octets), 200)]))
}
