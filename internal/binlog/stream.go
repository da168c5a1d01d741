package binlog

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-mysql-org/go-mysql/replication"
	"github.com/google/uuid"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/mysql"
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
	id mysql.GTID
	// open: its GTID has come, its end has not. begun: BEGIN has come too.
	open, begun bool
	micros      int64 // commit time, by the clock of the server where it was committed first
	stamped     int64 // a time that all servers have in their binlogs; 0: none, mixedTimes: several. See openBehind
	rows        bool  // of ours are held
	unread      error // a statement may have written rows of ours that are not in the binlog
	// ours are the table ids of tracked tables in the current statement.
	ours map[uint64]bool
	// points are the sizes of held at the savepoints, by name.
	points  map[string]int64
	ordinal uint32 // rows handed on
	skip    uint32 // of these, the first ones that were handed on before
	placed  bool   // the batch knows it
	again   bool   // it was handed on before; see lookBack
	hint    hint   // where it begins
}

// take takes an event in.
func (ss *session) take(ctx context.Context, e event) error {
	if ss.tx.again && !e.between() {
		return nil
	}
	if ss.src.flavor == cdc.MariaDB && !ss.tx.rows && !e.between() { // a replica writes its own time into the GTID event
		ss.tx.micros = min(ss.tx.micros, int64(e.seconds())*1e6)
	}
	switch kind := e.kind(); kind {
	case replication.WRITE_ROWS_EVENTv1, replication.WRITE_ROWS_EVENTv2, replication.MARIADB_WRITE_ROWS_COMPRESSED_EVENT_V1:
		ss.dated(e)
		return ss.inserted(e)
	case replication.UPDATE_ROWS_EVENTv1, replication.UPDATE_ROWS_EVENTv2, replication.PARTIAL_UPDATE_ROWS_EVENT,
		replication.DELETE_ROWS_EVENTv1, replication.DELETE_ROWS_EVENTv2,
		replication.MARIADB_UPDATE_ROWS_COMPRESSED_EVENT_V1, replication.MARIADB_DELETE_ROWS_COMPRESSED_EVENT_V1:
		ss.dated(e)
		return nil // an outbox is append-only: what others do to its rows says nothing new
	case partialRows:
		ss.dated(e)
		return ss.fragment()
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
		return content("gtid_mode", mysql.FixGTIDMode,
			"binlog holds a transaction without a GTID: gtid_mode is not ON")
	case replication.INCIDENT_EVENT:
		// MySQL gives it a GTID. On MariaDB it has none and no position is behind it: it is sent to every reader of the file that it is in, from
		// whatever position.
		return content("incident", "", "server has written an INCIDENT into its binlog: events may be missing from it")
	case replication.EXECUTE_LOAD_QUERY_EVENT:
		return ss.load(e)
	default:
		return ss.other(e, kind)
	}
}

// other leaves out what says nothing about inserted rows, and refuses what it does not know.
func (ss *session) other(e event, kind replication.EventType) error {
	switch kind { //nolint:exhaustive // the rest is not known
	case replication.HEARTBEAT_EVENT, replication.HEARTBEAT_LOG_EVENT_V2:
		ss.idle()
		return nil
	case replication.ROTATE_EVENT, replication.STOP_EVENT,
		replication.PREVIOUS_GTIDS_EVENT, replication.ROWS_QUERY_EVENT, replication.INTVAR_EVENT, replication.RAND_EVENT,
		replication.USER_VAR_EVENT, replication.BEGIN_LOAD_QUERY_EVENT, replication.TRANSACTION_CONTEXT_EVENT,
		replication.VIEW_CHANGE_EVENT, replication.MARIADB_ANNOTATE_ROWS_EVENT, replication.MARIADB_BINLOG_CHECKPOINT_EVENT,
		replication.MARIADB_GTID_LIST_EVENT, replication.MARIADB_START_ENCRYPTION_EVENT:
		return nil
	}
	if e.ignorable() {
		return nil
	}
	return cdc.Stop(cdc.ClassRuntime, "unknown_event", fmt.Errorf("binlog holds an event of kind %d, which this version does not know", kind), "use a newer cdc-relay")
}

// begin starts a transaction. The server sends whole ones, so an open one before it was DDL, which ends by itself.
func (ss *session) begin(e event) error {
	tx, err := ss.transaction(e)
	if err != nil {
		return err
	}
	tx.hint = ss.hint()
	if p := ss.src.next.part; p.rows > 0 && p.tx == tx.id.String() {
		tx.skip = p.rows
	}
	tx.ours, tx.points = ss.tx.ours, ss.tx.points
	clear(tx.ours)
	clear(tx.points)
	ss.tx = tx
	ss.aged(tx.micros)
	ss.src.held.reset()
	return nil
}

// transaction reads what a GTID event says of the transaction that it begins.
func (d *dump) transaction(e event) (transaction, error) {
	parsed, err := d.parse(e)
	if err != nil {
		return transaction{}, err
	}
	tx := transaction{open: true, micros: int64(e.seconds()) * 1e6}
	switch g := parsed.Event.(type) {
	case *replication.GTIDEvent:
		err = tx.mysql(g)
	case *replication.GtidTaggedLogEvent:
		err = tx.mysql(&g.GTIDEvent)
	case *replication.MariadbGTIDEvent:
		tx.id = mysql.GTID{Domain: g.GTID.DomainID, Server: g.GTID.ServerID, Number: g.GTID.SequenceNumber}
		tx.begun = !g.IsStandalone() // its GTID event stands for BEGIN
	}
	if err != nil {
		return transaction{}, fmt.Errorf("read binlog: %w", err)
	}
	return tx, nil
}

// hint is where the last event begins.
func (ss *session) hint() hint {
	return ss.place.hint(ss.server)
}

func (tx *transaction) mysql(g *replication.GTIDEvent) error {
	sid, err := uuid.FromBytes(g.SID)
	tx.id = mysql.GTID{SID: sid, Tag: g.Tag, Number: uint64(g.GNO)}
	tx.stamped = int64(g.OriginalCommitTimestamp)
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

// partialRows is the kind of a fragment of a rows event, as MariaDB 12.3 and newer write it. go-mysql does not know it.
const partialRows replication.EventType = 172

// fragment refuses a fragment that may have rows of a tracked table. Which tables a statement changes comes before its rows.
func (ss *session) fragment() error {
	if len(ss.tx.ours) == 0 {
		return nil
	}
	return content("row_fragments", "raise binlog_row_event_fragment_threshold on the server above the size of such a row",
		"MariaDB has written a rows event in fragments, because it is larger than binlog_row_event_fragment_threshold: the relay does not read these")
}

func (ss *session) inserted(e event) error {
	if !ss.tx.ours[e.tableID()] {
		ss.src.metrics.filtered.WithLabelValues(otherTable).Inc()
		return nil
	}
	ss.tx.rows = true
	if ss.src.flavor == cdc.MariaDB {
		// Its log has whole seconds, and of the commit other ones on a replica: an event must not change by a
		// failover. Those of the rows stay.
		ss.tx.micros = int64(e.seconds()) * 1e6
	}
	return ss.src.held.add(e.raw)
}

// otherTable is the table label of all tables that are not ours.
const otherTable = "other"

// commit hands the transaction's rows on.
func (ss *session) commit(ctx context.Context) error {
	if !ss.tx.open {
		return errors.New("read binlog: end of a transaction without its beginning")
	}
	if ss.tx.unread != nil {
		return ss.tx.unread
	}
	if ss.tx.rows {
		if err := ss.awaitVisible(ctx); err != nil {
			return err
		}
		if err := ss.emitHeld(ctx); err != nil {
			return err
		}
		if err := ss.allSkipped(); err != nil {
			return err
		}
		if ss.tx.ordinal > 0 { // not all taken back to a savepoint
			ss.src.next.commit = ss.tx.id
		}
	}
	if err := ss.end(); err != nil {
		return err
	}
	return ss.flushFull(ctx)
}

// end adds the transaction to the position: nothing of it is left to hand on.
func (ss *session) end() error {
	if !ss.tx.open {
		return nil
	}
	s := ss.src
	s.direct = false
	ss.tx.open, ss.tx.begun = false, false
	if ss.tx.skip > 0 {
		s.next.part = part{}
	}
	s.held.reset()
	s.received.Add(ss.tx.id)
	s.positions.seen(ss.tx.id)
	if s.next.hint.behind++; ss.tx.stamped > 0 {
		s.next.stamp, s.next.hint = stamp{ss.tx.id, ss.tx.stamped}, ss.tx.hint
	}
	id := ss.tx.id
	s.lastSeen.Store(&id)
	return nil
}
