package binlog

import (
	"context"
	"fmt"
	"time"

	"github.com/go-mysql-org/go-mysql/client"
	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/mysql"
	"github.com/cdc-relay/cdc-relay/internal/visibility"
)

// # No event before its row
//
// The server sends a transaction as soon as it is in the binlog. A statement sees its rows later, after the commit in InnoDB, for
// which semi-synchronous replication waits until a replica has the transaction. So at the end of each transaction with rows of ours
// the owner asks whether it is visible, unless an earlier answer showed it, and reads nothing until it is.
//
//   - MySQL adds a transaction to gtid_executed after it was committed in InnoDB, whatever binlog_order_commits says.
//   - MariaDB adds it to gtid_binlog_pos before that. What moves with the commit is binlog_snapshot_position; see [snapshot].

// committed is a transaction of ours whose end was read.
type committed struct {
	id mysql.GTID
	at fileEnd // its end
}

func (c committed) String() string { return "transaction " + c.id.String() }

// gate waits until transactions are visible.
type gate = visibility.Gate[committed]

// watch connects the session's gate, unless nothing is to wait.
func (ss *session) watch(ctx context.Context) error {
	s := ss.src
	if !s.opts.WaitUntilVisible {
		return nil
	}
	ss.gate = visibility.New[committed](&witness{src: s, stream: ss.server}, visibility.Options{
		Log: s.log, Serve: ss.serve, Problems: s.opts.Problems, Fix: mysql.FixCommitsWait,
	})
	return ss.gate.Open(ctx)
}

// awaitVisible returns once the rows of the transaction that ends here can be read.
func (ss *session) awaitVisible(ctx context.Context) error {
	if ss.gate == nil {
		return nil
	}
	if err := ss.gate.Wait(ctx, committed{ss.tx.id, ss.place.fileEnd}); err != nil {
		return &cdc.FixableError{Cause: err} // however often: it is not about what stands in the binlog; see located
	}
	return nil
}

// serve hands on what was visible before, and does what time asks for.
func (ss *session) serve(ctx context.Context) error {
	if ss.out == nil { // in Acquire
		return nil
	}
	if err := ss.flush(ctx); err != nil {
		return err
	}
	ss.read = time.Now() // whatever the server sends meanwhile, we do not read
	return ss.tick(ctx)
}

// witness asks a server which transactions are visible, on a connection of its own.
type witness struct {
	src    *Source
	stream string // identity of the server that sends the binlog
	conn   *client.Conn
	fresh  freshFile
}

// Connect implements [visibility.Server].
func (w *witness) Connect(ctx context.Context) error {
	w.Close()
	cfg, err := w.src.opts.Endpoint(ctx)
	if err != nil {
		return err
	}
	if w.conn, err = mysql.ConnectReplication(ctx, cfg); err != nil {
		return err
	}
	_, err = w.query(ctx, "SET SESSION autocommit = 1, sql_select_limit = 18446744073709551615")
	return err
}

// Close implements [visibility.Server].
func (w *witness) Close() {
	if w.conn != nil {
		_ = w.conn.Close()
	}
	w.conn, w.fresh = nil, freshFile{}
}

// Ask implements [visibility.Server].
func (w *witness) Ask(ctx context.Context) (visibility.Answer[committed], error) {
	if w.src.flavor == cdc.MariaDB {
		return w.askMariaDB(ctx)
	}
	found, err := w.query(ctx, "SELECT "+identity(cdc.MySQL)+", @@GLOBAL.gtid_executed")
	if err != nil {
		return nil, err
	}
	if err := w.same(found); err != nil {
		return nil, err
	}
	text, err := found.GetString(0, 1)
	if err != nil {
		return nil, err
	}
	set, err := mysql.ParseSet(cdc.MySQL, text)
	if err != nil {
		return nil, err
	}
	executed, _ := set.(mysql.IntervalSet)
	return gtidExecuted{executed}, nil
}

// gtidExecuted is MySQL's answer.
type gtidExecuted struct{ mysql.IntervalSet }

// Shows implements [visibility.Answer].
func (s gtidExecuted) Shows(tx committed) bool { return s.Has(tx.id) }

// identity is an expression that tells servers apart.
func identity(f cdc.Flavor) string {
	if f == cdc.MariaDB {
		return "CONCAT_WS(' ', @@server_id, @@hostname, @@port)"
	}
	return "@@server_uuid"
}

// same returns an error if the answer, which begins with the identity, is of another server than the stream.
func (w *witness) same(found *gomysql.Result) error {
	id, err := found.GetString(0, 0)
	if err != nil {
		return err
	}
	if id != w.stream {
		return cdc.Fixable("name one server in source.mysql.dsn, not a balancer over several",
			"two connections to source.mysql.dsn lead to two servers (%s and %s), so which transactions are visible cannot be asked", w.stream, id)
	}
	return nil
}

// query runs a statement until ctx ends. No goroutine of the driver has a part in it; see package visibility.
func (w *witness) query(ctx context.Context, statement string) (*gomysql.Result, error) {
	deadline, _ := ctx.Deadline()
	conn := w.conn // this one, also when the interruption comes late
	if err := conn.SetDeadline(deadline); err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	found, err := conn.Execute(statement)
	if err != nil {
		return nil, fmt.Errorf("%.40s: %w", statement, err)
	}
	return found, nil
}
