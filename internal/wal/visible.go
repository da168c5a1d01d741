package wal

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/cdc-relay/cdc-relay/internal/postgres"
	"github.com/cdc-relay/cdc-relay/internal/visibility"
)

// keepSnapshot is how long a snapshot counts. Transaction IDs of 32 bits compare within 2^31 transactions.
const keepSnapshot = time.Hour

const fixNotVisible = "find what the commit waits for (SELECT pid, wait_event FROM pg_stat_activity WHERE wait_event_type = 'IPC'); if it is SyncRep, start the standby or remove it from synchronous_standby_names"

// committed is a transaction whose commit was read from the WAL. The server writes the commit to the WAL first, then waits for
// synchronous standbys, and only then makes the transaction visible.
type committed struct {
	at  lsn // its commit record
	xid uint32
}

func (c committed) String() string { return "transaction " + strconv.FormatUint(uint64(c.xid), 10) }

// snapshot is what a statement sees: every transaction before max that was not running.
type snapshot struct {
	max     uint32
	running []uint32
}

// Shows compares as PostgreSQL does: 32 bits, modulo 2^32.
func (s snapshot) Shows(tx committed) bool {
	return int32(tx.xid-s.max) < 0 && !slices.Contains(s.running, tx.xid)
}

// replayed is the answer of a standby, which sends only what it has replayed: all that was received before. It is no snapshot, because
// the answer must not show what a promoted standby commits.
type replayed lsn

func (r replayed) Shows(tx committed) bool { return tx.at <= lsn(r) }

// snapshots asks the session's server, on a connection of its own: the monitor's may wait for seconds.
type snapshots struct {
	ss   *session
	conn *pgconn.HijackedConn // nil: none
	row  [3][]byte            // of the last answer
	// primary is set once a statement has said that recovery is over. The snapshot of that statement itself may have been taken before.
	primary bool
}

func newGate(ss *session) *visibility.Gate[committed] {
	return visibility.New(&snapshots{ss: ss}, visibility.Options{
		Log: ss.src.log, Keep: keepSnapshot, Problems: ss.src.opts.Problems, Fix: fixNotVisible,
		Serve: func(ctx context.Context) error { return ss.tick(ctx, time.Now()) },
	})
}

// verifyAsynchronous returns an error if commits wait for the relay while the relay waits until they are visible.
func (ss *session) verifyAsynchronous(ctx context.Context, conn *pgx.Conn) error {
	if !ss.src.opts.WaitUntilVisible {
		return nil
	}
	return postgres.VerifyAsynchronous(ctx, conn, ss.src.acquired)
}

// waitUntilVisible returns once a statement on the server sees all rows of b, if they are to wait.
func (ss *session) waitUntilVisible(ctx context.Context, b *pooledBatch) error {
	if !ss.src.opts.WaitUntilVisible {
		return nil
	}
	return ss.gate.Wait(ctx, b.committed...)
}

// question is the name of the prepared statement.
const question = "visible"

const snapshotQuestion = `SELECT pg_current_snapshot()::text, pg_is_in_recovery(), (` + postgres.StartedQuery + `)`

// Connect opens the connection and asks once: a server that recovers at first answers differently.
func (q *snapshots) Connect(ctx context.Context) error {
	q.Close()
	conn, err := postgres.Connect(ctx, q.ss.src.opts.Options)
	if err != nil {
		return err
	}
	// Serializable and deferrable, as a role's or database's default may be, would make the question wait for other transactions.
	set := conn.PgConn().Exec(ctx, "SET default_transaction_isolation = 'read committed'; SET default_transaction_deferrable = off")
	if err = set.Close(); err == nil {
		_, err = conn.PgConn().Prepare(ctx, question, snapshotQuestion, nil)
	}
	if err == nil {
		q.conn, err = conn.PgConn().Hijack()
	}
	if err != nil {
		postgres.CloseConn(ctx, conn.PgConn())
		return fmt.Errorf("prepare the connection: %w", err)
	}
	_, err = q.Ask(ctx)
	return err
}

// Close closes the connection.
func (q *snapshots) Close() {
	if q.conn != nil {
		_ = q.conn.Conn.SetDeadline(time.Now().Add(time.Second))
		q.conn.Frontend.Send(&pgproto3.Terminate{})
		_ = q.conn.Frontend.Flush()
		_ = q.conn.Conn.Close()
	}
	q.conn, q.primary = nil, false
}

// Ask asks for a snapshot, and in the same statement whether it counts.
func (q *snapshots) Ask(ctx context.Context) (visibility.Answer[committed], error) {
	received := q.ss.tx.commit // before the question: what comes later may be of a promoted server
	for {
		if err := q.query(ctx); err != nil {
			return nil, err
		}
		switch {
		case string(q.row[2]) != q.ss.serverStarted: // behind a pooler also on the same connection
			return nil, postgres.ErrTwoServers()
		case string(q.row[1]) == "t":
			q.primary = false
			return replayed(received), nil
		case q.primary:
			return parseSnapshot(q.row[0])
		}
		q.primary = true
	}
}

// query asks until ctx ends. The driver has no part in it, because it sets a timer of some milliseconds for each statement, which wakes a
// thread that sleeps for longer.
func (q *snapshots) query(ctx context.Context) error {
	deadline, _ := ctx.Deadline()
	conn, front := q.conn.Conn, q.conn.Frontend // these, also when the interruption comes late
	if err := conn.SetDeadline(deadline); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	front.SendBind(&pgproto3.Bind{PreparedStatement: question})
	front.SendExecute(&pgproto3.Execute{})
	front.SendSync(&pgproto3.Sync{})
	if err := front.Flush(); err != nil {
		return err
	}
	rows := 0
	var refused error
	for {
		message, err := front.Receive()
		if err != nil {
			return cmp.Or(refused, err)
		}
		switch m := message.(type) {
		case *pgproto3.DataRow:
			for i := range min(len(m.Values), len(q.row)) {
				q.row[i] = append(q.row[i][:0], m.Values[i]...)
			}
			rows++
		case *pgproto3.ErrorResponse:
			refused = pgconn.ErrorResponseToPgError(m)
		case *pgproto3.ReadyForQuery:
			if refused == nil && rows != 1 {
				refused = errors.New("the server returned no snapshot")
			}
			return refused
		}
	}
}

// parseSnapshot reads "xmin:xmax:xip,xip", transaction IDs of 64 bits, of which the WAL has the lower half.
func parseSnapshot(text []byte) (snapshot, error) {
	fields := bytes.Split(text, []byte(":"))
	if len(fields) != 3 {
		return snapshot{}, fmt.Errorf("snapshot %q cannot be read", text)
	}
	var s snapshot
	var err error
	if s.max, err = lowHalf(fields[1]); err != nil {
		return snapshot{}, err
	}
	for id := range bytes.SplitSeq(fields[2], []byte(",")) {
		if len(id) == 0 {
			continue // none is running
		}
		xid, err := lowHalf(id)
		if err != nil {
			return snapshot{}, err
		}
		s.running = append(s.running, xid)
	}
	return s, nil
}

func lowHalf(id []byte) (uint32, error) {
	full, err := strconv.ParseUint(string(id), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read a snapshot: %w", err)
	}
	return uint32(full), nil
}
