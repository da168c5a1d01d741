package postgres

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// relayed is how far the relay has published and saved.
type relayed struct {
	// now is the server's time.
	now time.Time
	// upto is the slot's position, or the checkpoint's if that is behind: a slot that was recreated or advanced by hand is ahead
	// of the checkpoint. 0: there is no slot.
	upto LSN
	// unknown is why that cannot be told.
	unknown error
}

// Passed reports whether a position is behind a row's place; see [cdc.Batch.Place]. A position may be that of the next commit
// record, whose rows are still to come.
func Passed(p cdc.Progress, place string) bool {
	tx, ordinal := cdc.SplitPlace(place)
	commit, err := ParseLSN(cdc.Position(tx))
	if err != nil {
		return false
	}
	at, err := ParseLSN(p.Position)
	return err == nil && at > commit || ordinal < p.Part.Rows && strings.HasPrefix(p.Part.TxID, tx+"/")
}

// relayed asks for the positions of the slot and of the checkpoint.
func (d *Database) relayed(ctx context.Context, slot string, load cdc.Loader) (r relayed, err error) {
	var system, file, confirmed string
	err = d.Conn.QueryRow(ctx, `SELECT now(), system_identifier::text, pg_walfile_name(pg_current_wal_lsn()),
		coalesce((SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = $1 AND database = current_database()), '0/0')::text
		FROM pg_control_system()`, slot).Scan(&r.now, &system, &file, &confirmed)
	if err != nil {
		return r, fmt.Errorf("read the slot's position: %w", err)
	}
	if r.upto, err = ParseLSN(cdc.Position(confirmed)); err != nil {
		return r, err
	}
	timeline, err := strconv.ParseUint(file[:8], 16, 32)
	if err != nil {
		return r, fmt.Errorf("read the timeline: %w", err)
	}
	here := cdc.Source{SystemID: system, Database: d.Server.Database, Slot: slot, Timeline: uint32(timeline)}
	c, found, err := load(ctx)
	switch {
	case err != nil:
		r.unknown = err
	case found && (!c.Source.Same(here) || c.Source.Timeline != here.Timeline):
		r.unknown = cdc.Fixable("start the relay, which compares it with the slot", "the checkpoint is of another database or timeline")
	case found:
		var saved LSN
		saved, r.unknown = ParseLSN(c.Progress.Position)
		r.upto = min(r.upto, saved)
	}
	return r, nil
}

// Source returns what identifies the slot's source.
func (d *Database) Source(ctx context.Context, slot string) (cdc.Source, error) {
	id := cdc.Source{Database: d.Server.Database, Slot: slot}
	if err := d.Conn.QueryRow(ctx, `SELECT system_identifier::text FROM pg_control_system()`).Scan(&id.SystemID); err != nil {
		return id, fmt.Errorf("read the system's identifier: %w", err)
	}
	return id, nil
}

// SlotPosition returns the position of the configured slot, from which a relay without a checkpoint starts.
func SlotPosition(ctx context.Context, o Options) (cdc.Position, error) {
	d, err := OpenDatabase(ctx, o)
	if err != nil {
		return "", err
	}
	defer d.Close(context.WithoutCancel(ctx))
	var confirmed string
	err = d.Conn.QueryRow(ctx, `SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = $1`, o.Slot).Scan(&confirmed)
	if err != nil {
		return "", fmt.Errorf("read the slot's position: %w", err)
	}
	return ParsePosition(cdc.Position(confirmed))
}

// verdict reports whether everything before a position that was noted is relayed, or why that cannot be known: a comment that
// the routine did not write, as after a restore, may hold a position of another server.
func (r *relayed) verdict(table, note string, untouched bool) (bool, error) {
	noted, err := ParseLSN(cdc.Position(note))
	switch {
	case err != nil:
		return false, err
	case !untouched:
		return false, cdc.RestoredPartition(table)
	case r.unknown != nil:
		return false, r.unknown
	}
	return r.passed(noted), nil
}

func (r *relayed) passed(noted LSN) bool { return r.upto > 0 && r.upto >= noted }
