package binlog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"

	"github.com/go-sql-driver/mysql"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/repair"
)

// RepairOptions configure a Repair.
type RepairOptions struct {
	Options

	// Read are the tables, ReadDSN the connection string that reads them: that of their owner may also read what retention has taken
	// out.
	Read    []ReadOptions
	ReadDSN func(context.Context) (string, error)
}

// Repair takes the relay's place in a MySQL or MariaDB database. It is a [repair.Database].
type Repair struct {
	opts    RepairOptions
	log     *slog.Logger
	src     *Source // holds the lock
	readers []*TableReader
}

// NewRepair returns a Repair that has not connected yet.
func NewRepair(o RepairOptions, log *slog.Logger) *Repair { return &Repair{opts: o, log: log} }

// Lead implements [repair.Database]. The tables are read after the position: so what they do not show is behind the position, and some
// of what they show is, too. No consistent snapshot is held: on MariaDB its metadata lock on the table ends only with it, and a DDL
// statement would wait for that, and writers behind it. Rows that are created after all others of then are left to the binlog.
func (r *Repair) Lead(ctx context.Context, load cdc.Resumer) (g repair.Ground, err error) {
	r.src = New(r.opts.Options, r.log, prometheus.NewRegistry())
	db, cfg, err := connectSQL(ctx, &r.opts.Options)
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
	reading := r.opts.Options
	reading.DSN = r.opts.ReadDSN
	for _, o := range r.opts.Read {
		t, err := OpenTable(ctx, reading, o)
		if err != nil {
			return g, err
		}
		r.readers = append(r.readers, t)
		if err := t.endAtLatest(ctx); err != nil {
			return g, err
		}
		g.Tables, g.Probes = append(g.Tables, t), append(g.Probes, t)
	}
	return g, nil
}

// judge says what the checkpoint is worth, and where the binlog goes on.
func (r *Repair) judge(ctx context.Context, db *sql.DB, cfg *mysql.Config, sv *server, g *repair.Ground) (err error) {
	if sv.executed, sv.purged, err = readServer(ctx, db, sv.flavor); err != nil {
		return err
	}
	at, err := resolve(*sv, storedCheckpoint{g.Stored, g.Found}, nil, "")
	stop, foreign := errors.AsType[*cdc.StopError](err)
	switch {
	case foreign && stop.Reason == "foreign_checkpoint":
		return repair.Foreign(stop, g.Stored.SavedAt)
	case err == nil && at.behind:
		err = historyLost(*sv, at.from)
	case err == nil:
		r.src.stamp = parseStamp(sv.flavor, g.Stored.Progress.Commit)
		if g.Found && !g.Stored.Source.Same(sv.source) {
			r.src.adopting = foreignCheckpoint(g.Stored.Source, sv.source)
		}
		err = r.tryLog(ctx, db, cfg, at.from)
	}
	if stop, ok := errors.AsType[*cdc.StopError](err); err != nil && (!ok || stop.Class != cdc.ClassPosition) {
		return err
	}
	g.Lost, g.Next = err, g.Stored.Progress
	if err == nil {
		return nil
	}
	next, err := end(ctx, db, sv)
	g.Next = cdc.Progress{Position: cdc.Position(next)}
	return err
}

// tryLog asks the server for its binlog from a position on: MariaDB does not tell in another way that it cannot send it.
func (r *Repair) tryLog(ctx context.Context, db *sql.DB, cfg *mysql.Config, from gtidSet) error {
	id, err := r.src.serverID(ctx, db)
	if err != nil {
		return err
	}
	ss, err := r.src.openBehind(ctx, cfg, from, id)
	if err != nil {
		return err
	}
	ss.close()
	return nil
}

// end returns a position that is not behind the commit of anything that a snapshot taken from now on does not show. MySQL adds a GTID to
// gtid_executed once the engine has committed. MariaDB's gtid_binlog_pos is ahead of the engine, but it tells what a snapshot shows.
func end(ctx context.Context, db *sql.DB, sv *server) (position string, err error) {
	if sv.flavor == cdc.MySQL {
		return sv.executed.String(), nil
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return "", fmt.Errorf("read where the binlog stands: %w", err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.ExecContext(ctx, "START TRANSACTION WITH CONSISTENT SNAPSHOT"); err != nil {
		return "", fmt.Errorf("read where the binlog stands: %w", err)
	}
	var name, file, place string
	var gtids sql.NullString
	err = conn.QueryRowContext(ctx, "SHOW STATUS LIKE 'binlog_snapshot_file'").Scan(&name, &file)
	if err == nil {
		err = conn.QueryRowContext(ctx, "SHOW STATUS LIKE 'binlog_snapshot_position'").Scan(&name, &place)
	}
	if err == nil {
		err = conn.QueryRowContext(ctx, "SELECT BINLOG_GTID_POS(?, ?)", file, place).Scan(&gtids)
	}
	if err == nil && !gtids.Valid {
		err = fmt.Errorf("MariaDB does not know the GTIDs of %s:%s", file, place)
	}
	if err == nil {
		_, err = conn.ExecContext(ctx, "ROLLBACK")
	}
	if err != nil {
		return "", fmt.Errorf("read where the binlog stands: %w", err)
	}
	set, err := parseSet(sv.flavor, gtids.String)
	if err != nil {
		return "", err
	}
	return set.String(), nil
}

// Finish implements [repair.Database].
func (r *Repair) Finish(context.Context) error { return nil }

// Close implements [repair.Database].
func (r *Repair) Close(ctx context.Context) {
	for _, t := range r.readers {
		t.Close(ctx)
	}
	r.readers = nil
	if r.src != nil {
		r.src.unlock()
	}
}
