package wal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/backfill"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/postgres"
	"github.com/cdc-relay/cdc-relay/internal/tableread"
)

// RepairOptions configure a Repair.
type RepairOptions struct {
	Options
	backfill.Reading // with a condition, the slot must be missing
}

// Repair takes the relay's place in a PostgreSQL database. It is a [backfill.Database].
//
// A slot that can be read is held, as by a relay; what a snapshot that is taken afterwards does not show is behind it. Where the
// slot is gone, no relay can lead: a slot of another name, which no standby looks for, keeps the WAL behind a snapshot, and gets
// the slot's name in the end.
type Repair struct {
	opts RepairOptions
	log  *slog.Logger

	src     *Source
	ss      *session
	held    *held              // where the slot can be read
	lock    *postgres.Database // holds the lock of repair, and exports a snapshot; the session's own belongs to its monitor
	readers []*postgres.TableReader
	fresh   bool // the slot is to be made
}

// NewRepair returns a Repair that has not connected yet.
func NewRepair(o RepairOptions, log *slog.Logger) *Repair {
	return &Repair{opts: o, log: log}
}

// Lead implements [backfill.Database].
func (r *Repair) Lead(ctx context.Context, load cdc.Resumer) (g backfill.Ground, err error) {
	r.src = New(r.opts.Options, r.log, prometheus.NewRegistry())
	if r.ss, err = r.src.connect(ctx); err != nil {
		return g, err
	}
	if err := r.ss.checkServer(ctx); err != nil {
		return g, err
	}
	sv, err := r.ss.identify(ctx)
	if err != nil {
		return g, err
	}
	if err := r.keepOthersOut(ctx); err != nil {
		return g, err
	}
	if g.Probes, err = r.openTables(ctx, ""); err != nil {
		return g, err
	}
	if r.opts.Where != "" {
		if load, err = r.ends(ctx, &sv, load, &g); err != nil || r.fresh {
			return g, err
		}
	}
	snapshot, lost, err := r.takeSlot(ctx, &sv)
	if err != nil {
		return g, err
	}
	defer func() {
		if err != nil && r.fresh {
			err = errors.Join(err, r.Abandon(context.WithoutCancel(ctx)))
		}
	}()
	if !r.fresh {
		load = r.ss.whileHeld(load)
	}
	if g.Stored, g.Found, err = load(ctx, sv.source); err != nil {
		return g, err
	}
	if err := r.ss.reconnect(ctx); err != nil { // a look that was cut short has closed the connection
		return g, err
	}
	left, err := leftTables(ctx, r.ss.sql, r.opts.Options, r.ss.version, g.Stored)
	if err == nil && left != "" && g.Stored.Source.Same(sv.source) { // the repair would pass over its rows, too
		err = tableLeftError(left, "run `cdc-relay position reset --skip-events`, then `cdc-relay repair --since TIME` or `cdc-relay backfill`")
	}
	if err != nil {
		return g, err
	}
	if !r.fresh {
		r.held = r.ss.hold(ctx)
	}
	if g.Tables, err = r.openTables(ctx, snapshot); err != nil {
		return g, err
	}
	if err = r.judge(ctx, &sv, lost, &g); err != nil || r.opts.Where == "" || !r.fresh {
		return g, err
	}
	g.Together = true
	for i, t := range g.Tables {
		if g.Tables[i], err = tableread.Pick(ctx, t, tableread.Filter{Where: r.opts.Where}); err != nil {
			return g, err
		}
	}
	return g, nil
}

// ends looks, where the slot is missing, whether a backfill with this condition has stored the position of the slot of repair, and
// nothing is left to do but to give that its name; r.fresh then. What it has loaded is what the load that it returns returns.
func (r *Repair) ends(ctx context.Context, sv *server, load cdc.Resumer, g *backfill.Ground) (cdc.Resumer, error) {
	if lost := r.ss.readSlotInto(ctx, sv); cdc.ReasonOf(lost) != postgres.SlotMissing {
		return load, lost
	}
	c, found, err := load(ctx, sv.source)
	if err != nil {
		return nil, err
	}
	loaded := func(context.Context, cdc.Source) (cdc.Checkpoint, bool, error) { return c, found, nil }
	if !found || c.Progress.Position == "" {
		return loaded, nil
	}
	left, err := r.lock.Slot(ctx, postgres.RepairSlot(r.opts.Slot))
	if err != nil {
		return nil, err
	}
	at, err := postgres.ParseLSN(c.Progress.Position)
	if err != nil || left == nil || c.Progress.Backfill != r.opts.Where || left.ConfirmedFlushLSN != at.String() || !c.Source.Same(sv.source) {
		return nil, postgres.MissingSlot(r.opts.Slot)
	}
	r.fresh, g.Source, g.Stored, g.Found, g.Next = true, sv.source, c, true, c.Progress
	return loaded, nil
}

// takeSlot holds the slot, or makes another one where it is gone, and returns the name of a snapshot and why the slot is gone. What
// the snapshot does not show is behind sv.slot.
func (r *Repair) takeSlot(ctx context.Context, sv *server) (snapshot string, lost, err error) {
	lost = r.ss.readSlotInto(ctx, sv)
	if reason := cdc.ReasonOf(lost); reason == postgres.SlotMissing || reason == postgres.SlotLost { // which is the same to a run
		r.fresh = true
		if err := r.lock.DropSlot(ctx, r.opts.Slot); err != nil {
			return "", nil, err
		}
		snapshot, err = r.makeSlot(ctx, sv)
		return snapshot, lost, err
	}
	if lost != nil {
		return "", nil, lost
	}
	if err := r.ss.awaitTurn(ctx, r.opts.Slot); err != nil {
		return "", nil, err
	}
	if err := r.ss.start(ctx); err != nil {
		return "", nil, err
	}
	if err := r.ss.readSlotInto(ctx, sv); err != nil { // its last owner may have moved it
		return "", nil, err
	}
	// What a transaction that is open now has written while the publication was altered is neither in a snapshot nor sent.
	served := r.ss.hold(ctx)
	err = r.lock.AwaitOpen(ctx, func(who string) { r.log.Info("waiting for the transactions that are open now", "open", who) })
	if _, held := served.takeBack(); err == nil {
		err = held
	}
	if err != nil {
		return "", nil, err
	}
	if _, err = r.lock.Conn.Exec(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"); err == nil {
		err = r.lock.Conn.QueryRow(ctx, "SELECT pg_export_snapshot()").Scan(&snapshot)
	}
	if err != nil {
		err = fmt.Errorf("take a snapshot: %w", err)
	}
	return snapshot, nil, err
}

// makeSlot makes the slot of repair, in place of one that an earlier repair left. Where that one was killed while PostgreSQL made
// the slot, its session holds the slot until then: it learns only afterwards that its client is gone.
func (r *Repair) makeSlot(ctx context.Context, sv *server) (snapshot string, err error) {
	slot := postgres.RepairSlot(r.opts.Slot)
	if err := r.ss.awaitTurn(ctx, slot); err != nil {
		return "", fmt.Errorf("%w%s", err, r.lock.Oldest(ctx))
	}
	if err := r.lock.DropSlot(ctx, slot); err != nil {
		return "", err
	}
	r.log.Info("making a slot, which waits for the transactions that are open now", "slot", slot)
	waiting, cancel := context.WithTimeout(ctx, postgres.ExecTimeout)
	defer cancel()
	made, err := pglogrepl.CreateReplicationSlot(waiting, r.ss.repl, pgx.Identifier{slot}.Sanitize(), "pgoutput", pglogrepl.CreateReplicationSlotOptions{SnapshotAction: "EXPORT_SNAPSHOT"})
	switch {
	case err == nil:
		sv.slot, err = pglogrepl.ParseLSN(made.ConsistentPoint)
		r.ss.src.confirmed.Store(uint64(sv.slot))
		return made.SnapshotName, err
	case waiting.Err() != nil && ctx.Err() == nil:
		return "", postgres.SlotWaits(fmt.Errorf("create slot %q: PostgreSQL was not done after %s%s", slot, postgres.ExecTimeout, r.lock.Oldest(ctx)))
	}
	return "", postgres.ReplicationError(err, slot)
}

// takeRepair takes the lock of repair, and asks whether a slot is none that a repair has left: nobody reads those.
const takeRepair = `SELECT pg_try_advisory_lock(hashtextextended($1, 0)), EXISTS (SELECT FROM pg_replication_slots
	LEFT JOIN pg_stat_replication_slots AS read USING (slot_name) WHERE slot_name = $2 AND (database IS DISTINCT FROM current_database() OR total_txns > 0))`

// keepOthersOut keeps other repairs out. It locks no table: while the slot waits for the transactions that are open, one of them may
// wait for a writer's place behind a DDL statement, which would wait for that lock.
func (r *Repair) keepOthersOut(ctx context.Context) (err error) {
	if r.lock, err = postgres.OpenDatabase(ctx, r.opts.Options.Options); err != nil {
		return err
	}
	var alone, others bool
	slot := postgres.RepairSlot(r.opts.Slot)
	if err := r.lock.Conn.QueryRow(ctx, takeRepair, "cdc-relay repair "+r.opts.Slot, slot).Scan(&alone, &others); err != nil {
		return fmt.Errorf("take the lock of repair: %w", err)
	}
	switch {
	case !alone:
		return fmt.Errorf("%w: it holds the advisory lock of slot %q", cdc.ErrStandby, r.opts.Slot)
	case others:
		return cdc.ConfigError("slot_taken", "move its reader to a slot of another name, or drop the slot if nobody needs it", "a repair makes slot %q, and there is one that another program reads", slot)
	}
	if _, err = r.lock.Conn.Exec(ctx, postgres.NoTimeouts); err != nil {
		return fmt.Errorf("prepare the connection: %w", err)
	}
	return nil
}

// openTables opens the tables to read them in a snapshot; "": as they are.
func (r *Repair) openTables(ctx context.Context, snapshot string) (tables []tableread.Table, err error) {
	reading := r.opts.Options.Options
	reading.DSN = r.opts.ReadDSN
	for i := range r.opts.Read {
		o := r.opts.Read[i]
		o.Snapshot = snapshot
		t, err := postgres.OpenTable(ctx, reading, o)
		if err != nil {
			return nil, err
		}
		r.readers = append(r.readers, t)
		tables = append(tables, t)
	}
	return tables, nil
}

// judge says what the checkpoint is worth, and where the WAL goes on.
func (r *Repair) judge(ctx context.Context, sv *server, lost error, g *backfill.Ground) error {
	g.Source, g.Lost = sv.source, lost
	if g.Found && !g.Stored.Source.Same(sv.source) {
		_, err := readCheckpoint(*sv, storedCheckpoint{g.Stored, true})
		stop, _ := errors.AsType[*cdc.StopError](err)
		return backfill.Foreign(stop, g.Stored.SavedAt)
	}
	saved, err := readCheckpoint(*sv, storedCheckpoint{g.Stored, g.Found})
	if err != nil {
		return err
	}
	if g.Found {
		sv.follow(g.Stored.Source)
	}
	history := checkHistory(*sv, saved.resume)
	if g.Lost == nil {
		s := r.ss.src
		_, _, g.Lost = startRules{&s.opts, s.baseline, s.read, s.handedOn, s.lastConfirmed(), ""}.apply(*sv, storedCheckpoint{g.Stored, g.Found})
	}
	xmin, next, err := r.readers[len(r.readers)-1].Horizon(ctx)
	if err != nil {
		return err
	}
	if history == nil && saved.xmin > 0 && saved.xmin <= next {
		g.Where, g.Exact = postgres.RowsSince(saved.xmin, next)
	}
	g.Next = cdc.Progress{Position: postgres.FormatLSN(sv.slot)}
	switch {
	case r.fresh:
		g.Next.XMin = strconv.FormatUint(xmin, 10)
	case history == nil && g.Found && saved.resume >= sv.slot:
		if g.Next = g.Stored.Progress; g.Stored.Source.Fingerprint != sv.source.Fingerprint { // see resolve
			g.Next.Commit, g.Next.TxID = "", ""
		}
	case history == nil:
		g.Next.XMin = g.Stored.Progress.XMin
	}
	return nil
}

// Finish implements [backfill.Database]. The slot of repair is copied: a slot cannot be renamed. Rows that were written while the publication
// was altered may be neither in the snapshot nor sent, and with the slot alone the next start passes what tells of it.
func (r *Repair) Finish(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), postgres.ExecTimeout)
	defer cancel()
	if r.held != nil {
		_, _ = r.held.takeBack()
	}
	_ = r.ss.sql.Close(ctx) // it was idle since Lead, and whether it is dead nobody has noticed
	err := r.ss.reconnect(ctx)
	if err == nil {
		err = r.ss.checkPublication(ctx)
	}
	switch altered := cdc.ReasonOf(err) == cdc.PublicationAltered; {
	case err != nil && !altered:
		return err // the slot keeps the WAL for the same command
	case altered, !r.fresh:
		return errors.Join(err, r.lock.DropSlot(ctx, postgres.RepairSlot(r.opts.Slot)))
	}
	if _, err := r.lock.Conn.Exec(ctx, "SELECT pg_copy_logical_replication_slot($1, $2)", postgres.RepairSlot(r.opts.Slot), r.opts.Slot); err != nil {
		return r.lock.ExecError(ctx, "copy slot "+postgres.RepairSlot(r.opts.Slot), err)
	}
	if r.ss.version >= postgres.FailoverSince { // which copying a slot leaves out
		alter := "ALTER_REPLICATION_SLOT " + pgx.Identifier{r.opts.Slot}.Sanitize() + " (FAILOVER true)"
		if _, err := r.ss.repl.Exec(ctx, alter).ReadAll(); err != nil {
			r.log.Warn("slot is not synchronized to standbys", "slot", r.opts.Slot, "error", err, "fix", "stop the relay, and send "+alter+" on a replication connection")
		}
	}
	return r.lock.DropSlot(ctx, postgres.RepairSlot(r.opts.Slot))
}

// Abandon implements [backfill.Database]. The slot would keep WAL, and the next repair makes another one.
func (r *Repair) Abandon(ctx context.Context) error {
	return r.lock.DropSlot(ctx, postgres.RepairSlot(r.opts.Slot))
}

// Close implements [backfill.Database].
func (r *Repair) Close(ctx context.Context) {
	for _, t := range r.readers {
		t.Close(ctx)
	}
	if r.lock != nil {
		r.lock.Close(ctx)
	}
	if r.held != nil {
		_, _ = r.held.takeBack()
	}
	if r.ss != nil {
		r.ss.close(ctx)
	}
	r.readers, r.lock, r.ss, r.held, r.fresh = nil, nil, nil, nil, false
}
