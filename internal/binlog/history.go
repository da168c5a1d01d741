package binlog

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-mysql-org/go-mysql/replication"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/mysql"
)

// # A restored server
//
// A server that was restored from a backup gives its GTIDs a second time, to other transactions. Once it has executed all that is in
// our position, the sets do not show that, and the relay would skip what was committed under GTIDs that it published already. So the
// checkpoint holds one of the last transactions before its position with a time, a stamp, and each connect reads
// that transaction again, before all that follows.
//
// The rules make sure that no start is refused wrongly:
//
//  1. The time is one that all servers of a history have in their binlogs. On MySQL it is the commit time on the server where the
//     transaction was committed first, in microseconds. MariaDB's GTID has another time on a replica, but rows keep theirs, in
//     seconds. A replica may leave rows out (filters, ROLLBACK TO), so a transaction counts only if its rows all have the same time.
//  2. Nothing but the time is compared: tables, columns, routes and policies may have changed since.
//  3. Only another time is another history. If the transaction was purged, has no time or no rows, or cannot be read soon, the start
//     goes on: an administrator may have skipped a transaction on a replica with an empty one.
//  4. Whatever moves the position by other means than reading (setup, position set, repair) stores no stamp.

// stamp is a transaction and its time. The zero value is none.
type stamp struct {
	tx mysql.GTID
	at int64 // Unix microseconds
}

// mixedTimes is the time of a transaction whose rows have several.
const mixedTimes = -1

// text is the stamp's form in a checkpoint.
func (s stamp) text() cdc.Position {
	if s.at <= 0 {
		return ""
	}
	return cdc.Position(s.tx.String() + "@" + strconv.FormatInt(s.at, 10))
}

// parseStamp returns none for a text that it does not know.
func parseStamp(f cdc.Flavor, text cdc.Position) stamp {
	id, at, _ := strings.Cut(string(text), "@")
	micros, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return stamp{}
	}
	set, err := mysql.ParseSet(f, id)
	if err != nil {
		return stamp{}
	}
	return stamp{set.Only(), micros}
}

// before returns a position whose next transaction is the stamp's; nil if there is none.
func (s stamp) before(from mysql.Set) mysql.Set {
	if s.at <= 0 {
		return nil
	}
	return from.Before(s.tx)
}

// dated notes the time of rows, of whatever table. MySQL's time is that of the GTID; see [transaction.mysql].
func (ss *session) dated(e event) {
	if ss.src.flavor != cdc.MariaDB {
		return
	}
	switch at := int64(e.seconds()) * 1e6; ss.tx.stamped {
	case at:
	case 0:
		ss.tx.stamped = at
	default:
		ss.tx.stamped = mixedTimes
	}
}

// lookBackTimeout is how long the server may take to find a transaction that is in its binlog; the stream takes as long again.
const lookBackTimeout = 5 * time.Second

// openBehind opens the stream behind from. It returns an error if the server has another transaction under the stamp's GTID, or if it
// must have it and has not. The server needs 0.4 s to search a gigabyte of one file, so it is asked once: for the binlog from the stamp's
// transaction on, which is compared and not handed on again.
func (s *Source) openBehind(ctx context.Context, d *dialer, from mysql.Set) (*session, error) {
	var unknown error
	if s.flavor == cdc.MariaDB {
		unknown = s.adopting
	}
	var ss *session
	if at := s.next.stamp.before(from); at != nil {
		seen, err := s.followHint(ctx, d, at, from)
		if seen.session == nil {
			seen, err = s.lookBack(ctx, d, dumpStart{set: at}, from)
		}
		switch {
		case err != nil && unknown != nil: // it may pass
			return nil, fmt.Errorf("find out whether the checkpoint is of this server: %w", err)
		case err != nil:
			s.log.Debug("last transaction not compared", "transaction", s.next.stamp.tx.String(), "error", err)
		case seen.time == s.next.stamp.at:
			s.adopting, unknown = nil, nil
		case seen.time > 0:
			seen.session.close()
			return nil, otherHistory(s.next.stamp.tx, s.next.stamp.at, seen.time)
		}
		if ss = seen.session; s.direct {
			seen.session.close()
			ss = nil
		}
	}
	switch {
	case unknown != nil:
		ss.close()
		return nil, unknown
	case ss != nil:
		return ss, nil
	}
	return s.open(ctx, d, dumpStart{set: from})
}

func otherHistory(tx mysql.GTID, published, found int64) error {
	clock := func(micros int64) string { return time.UnixMicro(micros).UTC().Format(time.RFC3339) }
	return cdc.PositionError("other_history",
		sinceThen,
		"transaction %s, which the relay has read, is of %s, and the server has another one of %s under this GTID: the position belongs to another history of this server (a backup was restored, or its binlog was reset)",
		tx, clock(published), clock(found))
}

// lookedBack is what was found of the stamp's transaction.
type lookedBack struct {
	time    int64    // on this server; 0: not known
	session *session // stands in the last transaction that was handed on, if it is not nil
}

// followHint looks back from where the checkpoint says that the stamp's transaction stands. It returns no session if that is not so.
func (s *Source) followHint(ctx context.Context, d *dialer, at, from mysql.Set) (lookedBack, error) {
	h := s.next.hint
	if h.file == "" {
		return lookedBack{}, nil
	}
	seen, err := s.lookBack(ctx, d, dumpStart{at, h}, from)
	if err != nil || seen.session == nil || seen.time != s.next.stamp.at {
		s.log.Debug("hint not followed", "file", h.file, "offset", h.offset, "error", err)
		seen.session.close()
		s.next.hint = hint{}
		return lookedBack{}, ctx.Err()
	}
	return seen, nil
}

// lookBack reads until the stamp's transaction has shown its time and everything in from has come.
func (s *Source) lookBack(ctx context.Context, d *dialer, start dumpStart, from mysql.Set) (lookedBack, error) {
	ctx, cancel := context.WithTimeout(ctx, lookBackTimeout)
	defer cancel()
	ss, err := s.open(ctx, d, start)
	if err != nil {
		return lookedBack{}, err
	}
	stop := context.AfterFunc(ctx, func() { _ = ss.conn.Close() })
	found, behind, err := ss.seek(ctx, s.next.stamp.tx, from, start.at)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil || !behind {
		ss.close()
		return lookedBack{time: max(found, 0)}, err
	}
	ss.tx.again = true
	return lookedBack{max(found, 0), ss}, nil
}

// seek reads until the time of the transaction g is known and the last transaction of from that is sent again has begun. It returns the
// time, and whether nothing was read that is to be handed on: a server that has transactions in another order may send some before g.
func (ss *session) seek(ctx context.Context, g mysql.GTID, from mysql.Set, at hint) (found int64, behind bool, err error) {
	r := repetition{from: from, first: g, counted: at.again(ss.src.flavor)}
	for r.state == repeating || found == 0 && (r.counted == 0 || r.state == repeated) {
		e, err := ss.nextEvent(ctx)
		if err != nil {
			return 0, false, ss.unlessDamaged(err)
		}
		id := ss.tx.id
		t, err := ss.timeOf(g, e)
		if err != nil {
			return 0, false, err
		}
		if found == 0 {
			found = t
		}
		if ss.tx.id != id {
			r.begin(ss.tx.id)
		}
	}
	return found, r.state == repeated, nil
}

// timeOfDDL returns the time of a transaction that is one statement.
func (ss *session) timeOfDDL(e event) (int64, error) {
	parsed, err := ss.parse(e)
	if err != nil {
		return 0, err
	}
	q, ok := parsed.Event.(*replication.QueryEvent)
	switch {
	case !ok || strings.EqualFold(string(q.Query), "BEGIN"):
		return 0, nil
	case strings.EqualFold(string(q.Query), "COMMIT") || strings.EqualFold(string(q.Query), "ROLLBACK"):
		return notKnown, nil
	}
	return ss.tx.stamped, nil
}

// notKnown is an answer of timeOf.
const notKnown = -1

// timeOf returns the time of the transaction g once e, the next event, shows it; 0: not yet.
func (ss *session) timeOf(g mysql.GTID, e event) (int64, error) {
	switch e.kind() { //nolint:exhaustive // the rest does not tell
	case replication.FORMAT_DESCRIPTION_EVENT:
		return 0, ss.format(e)
	case replication.GTID_EVENT, replication.GTID_TAGGED_LOG_EVENT, replication.MARIADB_GTID_EVENT:
		ended := ss.tx.id == g
		err := ss.begin(e)
		if ended || err == nil && upTo(g, ss.tx.id) && ss.tx.id != g { // MariaDB sends a domain in order
			return notKnown, err
		}
		return 0, err
	}
	if ss.tx.id != g { // of another server or domain, and behind our position
		return 0, nil
	}
	switch e.kind() { //nolint:exhaustive // the rest does not tell
	case replication.TABLE_MAP_EVENT, replication.TRANSACTION_PAYLOAD_EVENT:
		return ss.tx.stamped, nil // MySQL's; with MariaDB rows follow
	case replication.QUERY_EVENT:
		return ss.timeOfDDL(e)
	case replication.XID_EVENT:
		return notKnown, nil
	case replication.WRITE_ROWS_EVENTv1, replication.UPDATE_ROWS_EVENTv1, replication.DELETE_ROWS_EVENTv1, partialRows,
		replication.MARIADB_WRITE_ROWS_COMPRESSED_EVENT_V1, replication.MARIADB_UPDATE_ROWS_COMPRESSED_EVENT_V1, replication.MARIADB_DELETE_ROWS_COMPRESSED_EVENT_V1:
		ss.dated(e)
		return ss.tx.stamped, nil
	}
	return 0, nil
}

// repetition follows the transactions that a server sends again:
//
//	repeating ─► repeated ─► passed
//	    └───────────────────────▲
type repetition struct {
	from  mysql.Set // they are in it
	first mysql.GTID
	// counted is how many they are; 0: the server was asked by GTID.
	counted, begun uint32
	state          repeatState
}

type repeatState int

const (
	repeating repeatState = iota
	// repeated: the last one has begun.
	repeated
	// passed: one has begun that is to be handed on, or should not be here.
	passed
)

// begin takes the beginning of a transaction in.
func (r *repetition) begin(id mysql.GTID) {
	r.begun++
	switch {
	case r.state != repeating || !r.expects(id):
		r.state = passed
	case r.counted == 0 && id == r.from.LastOf(r.first) || r.counted > 0 && r.begun == r.counted:
		r.state = repeated
	}
}

func (r *repetition) expects(id mysql.GTID) bool {
	if r.counted == 0 {
		return upTo(id, r.from.LastOf(r.first))
	}
	return (r.begun > 1 || id == r.first) && (r.begun < r.counted || id == r.from.LastOf(id))
}

// upTo reports whether the server sends g no later than last, if it begins before last or at a transaction before it.
func upTo(g, last mysql.GTID) bool {
	return g == last || g.OnMariaDB() && g.Domain == last.Domain && g.Number <= last.Number
}
