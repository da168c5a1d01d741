package binlog

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"

	driver "github.com/go-sql-driver/mysql"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/backfill"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/mysql"
	"github.com/cdc-relay/cdc-relay/internal/tableread"
)

// RepairOptions configure a Repair.
type RepairOptions struct {
	Options
	backfill.Reading // with a condition, no position may be stored
}

// Repair takes the relay's place in a MySQL or MariaDB database. It is a [backfill.Database].
type Repair struct {
	opts    RepairOptions
	log     *slog.Logger
	src     *Source // holds the lock
	readers []*mysql.TableReader
}

// NewRepair returns a Repair that has not connected yet.
func NewRepair(o RepairOptions, log *slog.Logger) *Repair { return &Repair{opts: o, log: log} }

// Lead implements [backfill.Database]. The tables are read after the position: so what they do not show is behind the position, and some
// of what they show is, too. No consistent snapshot is held: on MariaDB its metadata lock on the table ends only with it, and a DDL
// statement would wait for that, and writers behind it. Rows that are created after all others of then are left to the binlog.
// With a condition position and rows are of one moment; see pick.
func (r *Repair) Lead(ctx context.Context, load cdc.Resumer) (g backfill.Ground, err error) {
	r.src = New(r.opts.Options, r.log, prometheus.NewRegistry())
	db, cfg, err := mysql.Connect(ctx, &r.opts.Options.Options)
	if err != nil {
		return g, err
	}
	defer func() { _ = db.Close() }()
	sv, _, err := r.src.checkServer(ctx, db, cfg)
	if err != nil {
		return g, err
	}
	if err := r.src.lead(ctx, db, cfg, sv.source); err != nil {
		return g, err
	}
	g.Source = sv.source
	if g.Stored, g.Found, err = load(ctx, sv.source); err != nil {
		return g, err
	}
	if err := r.judge(ctx, db, cfg, &sv, &g); err != nil {
		return g, err
	}
	reading := r.opts.Options.Options
	reading.DSN = r.opts.ReadDSN
	for i := range r.opts.Read {
		t, err := mysql.OpenTable(ctx, reading, r.opts.Read[i])
		if err != nil {
			return g, err
		}
		r.readers = append(r.readers, t)
		if err := t.Here(r.here(ctx, &sv)); err != nil {
			return g, err
		}
		g.Tables, g.Probes = append(g.Tables, t), append(g.Probes, t)
	}
	if r.opts.Where != "" {
		err := r.pick(ctx, db, &sv, &g)
		return g, err
	}
	for _, t := range r.readers { // what is written from now on is behind the position
		end := ""
		if t.Order() != "" {
			if end, err = tableread.Last(ctx, t, tableread.Filter{}); err != nil {
				return g, err
			}
		}
		g.Ends = append(g.Ends, end)
	}
	return g, nil
}

// pick picks rows in snapshots of the moment at which the binlog goes on. They end when the keys are read: a snapshot holds up DDL.
func (r *Repair) pick(ctx context.Context, db *sql.DB, sv *server, g *backfill.Ground) (err error) {
	if g.Found && g.Stored.Progress.Unfinished() == nil {
		return nil // the position is of another moment
	}
	reading := r.opts.Options.Options
	reading.DSN = r.opts.ReadDSN
	g.Next = cdc.Progress{}
	g.Next.Position, err = mysql.Together(ctx, reading, r.readers, func(conn *sql.Conn) error {
		if err := r.here(ctx, sv)(conn); err != nil || sv.flavor != cdc.MariaDB {
			return err
		}
		return mysql.NonePrepared(ctx, conn)
	}, func() (cdc.Position, error) {
		executed, _, err := mysql.ReadGTIDs(ctx, db, sv.flavor)
		if err != nil {
			return "", err
		}
		return mysql.SnapshotPosition(ctx, db, sv.flavor, executed)
	}, r.log)
	if err != nil {
		return err
	}
	g.Together = true
	for i, t := range r.readers {
		if g.Tables[i], err = tableread.Pick(ctx, t, tableread.Filter{Where: r.opts.Where}); err != nil {
			return err
		}
		if err := t.EndSnapshot(ctx); err != nil {
			return err
		}
	}
	return nil
}

// here returns an error if a connection leads to another server than the relay's: rows would be lost that it does not have yet, or
// published twice.
func (r *Repair) here(ctx context.Context, sv *server) func(*sql.Conn) error {
	return func(conn *sql.Conn) error { return r.src.leader.Here(ctx, conn, sv.source) }
}

// judge says what the checkpoint is worth, and where the binlog goes on.
func (r *Repair) judge(ctx context.Context, db *sql.DB, cfg *driver.Config, sv *server, g *backfill.Ground) (err error) {
	if sv.executed, sv.purged, err = mysql.ReadGTIDs(ctx, db, sv.flavor); err != nil {
		return err
	}
	at, err := resolve(*sv, storedCheckpoint{g.Stored, g.Found}, nil, false)
	stop, foreign := errors.AsType[*cdc.StopError](err)
	switch {
	case foreign && stop.Reason == "foreign_checkpoint":
		return backfill.Foreign(stop, g.Stored.SavedAt)
	case err == nil && at.behind:
		err = historyLost(*sv, at.from)
	case err == nil:
		r.src.next.stamp = parseStamp(sv.flavor, g.Stored.Progress.Commit)
		if g.Found && !g.Stored.Source.Same(sv.source) {
			r.src.adopting = foreignCheckpoint(g.Stored.Source, sv.source)
		}
		err = r.tryLog(ctx, cfg, at.from)
	}
	if err != nil && cdc.ClassOf(err) != cdc.ClassPosition {
		return err
	}
	g.Lost, g.Next = err, g.Stored.Progress
	if err == nil {
		return nil
	}
	next, err := mysql.SnapshotPosition(ctx, db, sv.flavor, sv.executed)
	g.Next = cdc.Progress{Position: next}
	return err
}

// tryLog asks the server for its binlog from a position on: MariaDB does not tell in another way that it cannot send it.
func (r *Repair) tryLog(ctx context.Context, cfg *driver.Config, from mysql.Set) error {
	ss, err := r.src.openBehind(ctx, newDialer(cfg, r.src.flavor, r.src.account), from)
	if err != nil {
		return err
	}
	ss.close()
	return nil
}

// Finish implements [backfill.Database].
func (r *Repair) Finish(context.Context) error { return nil }

// Abandon implements [backfill.Database].
func (r *Repair) Abandon(context.Context) error { return nil }

// Close implements [backfill.Database].
func (r *Repair) Close(ctx context.Context) {
	for _, t := range r.readers {
		t.Close(ctx)
	}
	r.readers = nil
	if r.src != nil {
		r.src.leader.Release()
	}
}
