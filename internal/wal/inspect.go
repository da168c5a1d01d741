package wal

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Inspection holds the stored positions of a relay that does not run.
type Inspection struct {
	Source cdc.Source
	// Slot is nil when there is none.
	Slot *SlotInfo
	// WALEnd is the end of the server's WAL.
	WALEnd cdc.Position
	// Checkpoint is what is stored, Found whether anything is, LoadErr why that is not known or not continued from.
	Checkpoint cdc.Checkpoint
	Found      bool
	LoadErr    error
	// From is where a run that starts now would go on; Refused is why it would not.
	From    cdc.Position
	Refused error
}

// Inspect reads the slot and the checkpoint and applies the start rules as [Source.Acquire] does, without
// taking the slot. The error is for a database that cannot be asked.
func (d *Database) Inspect(ctx context.Context, o Options, load cdc.Resumer) (Inspection, error) {
	repl, err := connectReplication(ctx, o)
	if err != nil {
		return Inspection{}, err
	}
	defer closeConn(ctx, repl)
	if _, err := sameServer(ctx, d.conn, repl); err != nil {
		return Inspection{}, err
	}
	return d.inspect(ctx, repl, o, load)
}

func (d *Database) inspect(ctx context.Context, repl *pgconn.PgConn, o Options, load cdc.Resumer) (Inspection, error) {
	pub, err := readPublication(ctx, d.conn, o, d.Server.Version)
	if err != nil {
		return Inspection{}, err
	}
	ss := newSession(&Source{opts: o, baseline: pub.fingerprint}, d.conn, repl)
	sv, err := ss.identify(ctx)
	if err != nil {
		return Inspection{}, err
	}
	if err := ss.readForks(ctx, &sv); err != nil {
		return Inspection{}, err
	}
	in := Inspection{Source: sv.source, WALEnd: formatPosition(sv.flushed)}
	if in.Slot, err = d.Slot(ctx, o.Slot); err != nil {
		return in, err
	}
	in.Checkpoint, in.Found, in.LoadErr = load(ctx, sv.source)
	in.From, in.Refused = ss.nextStart(ctx, &sv, in)
	return in, nil
}

// nextStart is what a start would say.
func (ss *session) nextStart(ctx context.Context, sv *server, in Inspection) (cdc.Position, error) {
	if err := ss.readSlotInto(ctx, sv); err != nil {
		return "", err
	}
	p, err := ss.resolveStart(ctx, *sv, func(context.Context, cdc.Source) (cdc.Checkpoint, bool, error) {
		return in.Checkpoint, in.Found, in.LoadErr
	})
	return formatPosition(p.from), err
}

// Move is a change of position by hand.
type Move struct {
	To cdc.Position
	// Skips is how many bytes of WAL are passed over: their events are never published. Repeats is how
	// many are read again: their events are published twice. At most one is more than 0.
	Skips, Repeats int64
	// Slot is whether the slot must be moved too.
	Slot bool
}

// Preview returns what a move to the position means, or why it cannot be made.
func (in *Inspection) Preview(to cdc.Position) (Move, error) {
	target, err := parsePosition(to)
	if err != nil {
		return Move{}, err
	}
	if err := in.Idle(); err != nil {
		return Move{}, err
	}
	slot, err := parsePosition(cdc.Position(in.Slot.Confirmed))
	if err != nil {
		return Move{}, err
	}
	end, err := parsePosition(in.WALEnd)
	if err != nil {
		return Move{}, err
	}
	now := slot
	if in.Found {
		if now, err = parsePosition(in.Checkpoint.Progress.Position); err != nil {
			return Move{}, err
		}
	}
	switch {
	case target < slot:
		return Move{}, cdc.PositionError("behind_slot",
			"publish what consumers miss with `cdc-relay repair --since TIME`",
			"%s lies before %s, where the slot stands, and PostgreSQL has removed the WAL before that", target, slot)
	case target > end:
		return Move{}, cdc.ConfigError("beyond_wal", "give a position that exists already", "%s lies beyond %s, the end of the server's WAL", target, end)
	}
	return Move{To: formatPosition(target), Skips: ahead(target, now), Repeats: ahead(now, target), Slot: target > slot}, nil
}

// Idle returns an error while a relay may move the positions itself, and when there is no slot.
func (in *Inspection) Idle() error {
	switch {
	case in.Slot == nil:
		return missingSlot(in.Source.Slot)
	case in.Slot.ActivePID != 0:
		return cdc.Stop(cdc.ClassRuntime, "slot_active", fmt.Errorf(
			"a relay runs (PID %d on the server reads slot %q)", in.Slot.ActivePID, in.Source.Slot), "stop it first, then try again")
	}
	return nil
}

func ahead(a, b lsn) int64 {
	if a <= b {
		return 0
	}
	return int64(a - b)
}
