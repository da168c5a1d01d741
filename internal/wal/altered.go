package wal

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/postgres"
)

// checkMeanwhile compares the publication with the one under which c was saved: what was altered while no
// relay looked loses rows just as silently. Without a store c is empty, and this is not known.
func (r startRules) checkMeanwhile(c cdc.Checkpoint) error {
	before, err := postgres.ParseFingerprint(c.Source.Fingerprint)
	last, bad := postgres.ParseLSN(c.Progress.Position)
	if err = cmp.Or(err, bad); err != nil {
		return badCheckpoint(err)
	}
	switch {
	case before.Changed(r.baseline, r.opts.tracked):
		return r.opts.altered("since the relay last ran", last)
	case r.left != "":
		return tableLeftError(r.left, "run `cdc-relay position set "+last.String()+"`")
	}
	return nil
}

// tableLeft is the reason when a run would pass over the rows of a table that the last one published.
const tableLeft = "table_left"

func tableLeftError(left, goOn string) error {
	return cdc.PositionError(tableLeft, "add it to tables again; or, if its events are not to be published any more, "+goOn,
		"the last run published the rows of %s, which tables does not name now: they would be passed over", left)
}

// leftTables names the tables that the run that saved c published, and that are published as they were then but not tracked any more: a
// configuration of before they were added passes over their rows, and later nothing would tell. "": there are none.
func leftTables(ctx context.Context, conn *pgx.Conn, o Options, version int, c cdc.Checkpoint) (string, error) {
	before, err := postgres.ParseFingerprint(c.Source.Fingerprint)
	left := slices.DeleteFunc(slices.Sorted(maps.Keys(before)), func(name string) bool { return o.tracked(name) || !strings.Contains(name, ".") })
	if err != nil || len(left) == 0 {
		return "", nil //nolint:nilerr // checkMeanwhile returns it
	}
	o.Tables = left
	now, err := postgres.ReadPublication(ctx, conn, o.Options, version)
	left = slices.DeleteFunc(left, func(name string) bool { return now.Fingerprint[name] != before[name] })
	return strings.Join(left, ", "), err
}

// publicationChanged notes the change and returns the error that ends the run. A relay that starts or stands by has confirmed nothing
// itself: the position is the slot's.
func (ss *session) publicationChanged(ctx context.Context, conn *pgx.Conn) error {
	when, last := "while the relay was reading", ss.src.lastConfirmed()
	if last == 0 {
		row, err := postgres.ReadSlot(ctx, conn, ss.src.opts.Slot)
		if err != nil {
			return err
		}
		if last, err = pglogrepl.ParseLSN(row.ConfirmedFlushLSN); err != nil {
			return fmt.Errorf("read the position of slot %s: %w", ss.src.opts.Slot, err)
		}
		when = "while the relay was starting or standing by"
	}
	ss.noteAltered(ctx, conn, last)
	return ss.src.opts.altered(when, last)
}

func (o *Options) altered(when string, last lsn) error {
	err := fmt.Errorf("publication %q was altered %s (it, or one of its tables, was dropped, recreated, renamed, or removed and added again), so inserts after %s may be missing from the WAL",
		o.Publication, when, last)
	if o.SlotAlone {
		return cdc.Stop(cdc.ClassPosition, cdc.PublicationAltered, err,
			"publish what may be missing with `cdc-relay repair --since TIME`, a time before that; only then add a checkpoint or change delivery")
	}
	return cdc.Stop(cdc.ClassPosition, cdc.PublicationAltered, err, "publish what may be missing, and accept the publication as it is now, with `cdc-relay repair`")
}

// alteredNote is the prefix of a message in the WAL which says that a relay has seen its publication altered; the slot's name follows.
// Where nothing but the slot holds the position, it is all that tells the next start. It stands behind what the slot has confirmed, and a
// relay that reads it stops there, but for that of repair.
const alteredNote = "cdc-relay: publication altered, slot "

// noteAltered writes the note, unless another relay reads the slot: that one looks for itself, or begins behind the alteration.
func (ss *session) noteAltered(ctx context.Context, conn *pgx.Conn, last lsn) {
	if !ss.src.opts.SlotAlone {
		return
	}
	// In a transaction: only then the server has written it to disk when it answers.
	_, err := conn.Exec(ctx, `SELECT pg_logical_emit_message(true, $1, $2) FROM pg_replication_slots
		WHERE slot_name = $3 AND (active_pid IS NULL OR active_pid = $4)`,
		alteredNote+ss.src.opts.Slot, last.String(), ss.src.opts.Slot, ss.walsender)
	if err != nil {
		ss.src.log.Warn("nothing tells the next start that the publication was altered: run the repair before it", "error", err)
	}
}

// noted stops at a note of this slot. Messages of others mean nothing here.
func (ss *session) noted(m []byte) error {
	if !ss.src.opts.SlotAlone || ss.tx.drop {
		return nil
	}
	var note pglogrepl.LogicalDecodingMessage
	if err := decoded(&note, m); err != nil {
		return err
	}
	last, err := pglogrepl.ParseLSN(string(note.Content))
	if err != nil || note.Prefix != alteredNote+ss.src.opts.Slot { // not written by a relay of this slot
		return nil //nolint:nilerr // as the comment says
	}
	if ss.src.opts.PassAlteration {
		ss.src.log.Info("passing the note that the publication was altered", "altered_after", last.String())
		return nil
	}
	return ss.src.opts.altered("while the relay was reading", last)
}
