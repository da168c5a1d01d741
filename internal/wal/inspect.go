package wal

import (
	"cmp"
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/postgres"
)

// Inspection holds the stored positions of a relay that does not run.
type Inspection struct {
	cdc.Inspection

	// Slot is nil when there is none.
	Slot *postgres.SlotInfo
	// WALEnd is the end of the server's WAL.
	WALEnd cdc.Position
}

// Inspect reads the slot and the checkpoint and applies the start rules as [Source.Acquire] does, without
// taking the slot. The error is for a database that cannot be asked.
func Inspect(ctx context.Context, db *postgres.Database, o Options, load cdc.Resumer) (Inspection, error) {
	repl, err := postgres.ConnectReplication(ctx, o.Options)
	if err != nil {
		return Inspection{}, err
	}
	defer postgres.CloseConn(ctx, repl)
	if _, err := postgres.SameServer(ctx, db.Conn, repl); err != nil {
		return Inspection{}, err
	}
	return inspect(ctx, db, repl, o, load)
}

func inspect(ctx context.Context, db *postgres.Database, repl *pgconn.PgConn, o Options, load cdc.Resumer) (Inspection, error) {
	pub, err := postgres.ReadPublication(ctx, db.Conn, o.Options, db.Server.Version)
	if err != nil {
		return Inspection{}, err
	}
	sv, err := identify(ctx, repl, cdc.Source{Slot: o.Slot, Fingerprint: pub.Fingerprint.String()})
	if err != nil {
		return Inspection{}, err
	}
	in := Inspection{Inspection: cdc.Inspection{Source: sv.source}, WALEnd: postgres.FormatLSN(sv.flushed)}
	if in.Slot, err = db.Slot(ctx, o.Slot); err != nil {
		return in, err
	}
	in.Checkpoint, in.Found, in.LoadErr = load(ctx, sv.source)
	left, err := leftTables(ctx, db.Conn, o, db.Server.Version, in.Checkpoint)
	in.From, in.Refused = in.resume(ctx, db, &sv, startRules{opts: &o, baseline: pub.Fingerprint, left: left})
	return in, err
}

// resume is what a start would say.
func (in *Inspection) resume(ctx context.Context, db *postgres.Database, sv *server, rules startRules) (cdc.Position, error) {
	if _, err := readUsableSlot(ctx, db.Conn, sv); err != nil {
		return "", err
	}
	if in.LoadErr != nil {
		return "", in.LoadErr
	}
	p, _, err := rules.apply(*sv, storedCheckpoint{in.Checkpoint, in.Found})
	return postgres.FormatLSN(p.from), err
}

// Check verifies what a run needs from the database and changes nothing; load is asked for the checkpoint
// to compare with the slot. It also returns the configured tables that exist, so that their columns can be
// checked.
func Check(ctx context.Context, o Options, load cdc.Resumer) ([]cdc.Finding, map[string]*cdc.Table) {
	return postgres.Check(ctx, o.Options, func(ctx context.Context, db *postgres.Database, repl *pgconn.PgConn) (cdc.Inspection, error) {
		in, err := inspect(ctx, db, repl, o, load)
		return in.Inspection, err
	})
}

// Preview returns what a move to the position means, or why it cannot be made.
func (in *Inspection) Preview(to cdc.Position) (cdc.Move, error) {
	target, err := postgres.ParseLSN(to)
	if err != nil {
		return cdc.Move{}, err
	}
	if in.Slot == nil {
		return cdc.Move{}, postgres.MissingSlot(in.Source.Slot)
	}
	slot, err := postgres.ParseLSN(cdc.Position(in.Slot.ConfirmedFlushLSN))
	end, bad := postgres.ParseLSN(in.WALEnd)
	now := slot
	if in.Found && in.Checkpoint.Progress.Position != "" && bad == nil {
		now, bad = postgres.ParseLSN(in.Checkpoint.Progress.Position)
	}
	switch err = cmp.Or(err, bad); {
	case err != nil:
		return cdc.Move{}, err
	case target < slot:
		return cdc.Move{}, cdc.PositionError("behind_slot",
			"publish what consumers miss with `cdc-relay repair --since TIME`",
			"%s lies before %s, where the slot stands, and PostgreSQL has removed the WAL before that", target, slot)
	case target > end:
		return cdc.Move{}, cdc.ConfigError("beyond_wal", "give a position that exists already", "%s lies beyond %s, the end of the server's WAL", target, end)
	}
	to = postgres.FormatLSN(target)
	// Between the commit and the position no row of an outbox may come (rule 6 of resolve): not where some are passed over, nor in another history.
	keeps := in.Checkpoint.Progress.Commit <= to && target <= now && in.Refused == nil && in.Checkpoint.Source.Fingerprint == in.Source.Fingerprint
	return cdc.Move{
		To: to, Skips: uint64(max(target, now) - now), Repeats: uint64(max(target, now) - target), KeepsCommit: keeps, Slot: target > slot,
	}, nil
}

// Idle returns an error while a relay may move the positions itself.
func (in *Inspection) Idle() error {
	if in.Slot != nil && in.Slot.ActivePID != 0 {
		return cdc.Stop(cdc.ClassRuntime, "slot_active", fmt.Errorf(
			"a relay runs (PID %d on the server reads slot %q)", in.Slot.ActivePID, in.Source.Slot), "stop it first, then try again")
	}
	return nil
}
