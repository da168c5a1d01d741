package postgres

import (
	"context"
	"fmt"
	"strconv"
)

// Horizon says that each transaction with an ID below xmin has ended before a place in the WAL: its rows are published, or never
// will be, once the position has passed that place. So a row whose xmin is not below it is all that repair has to read.
//
// An ID has 64 bits, the upper ones of which are the epoch. 0: nothing is known. A transaction that is open, or prepared, holds the
// horizon back, and its subtransactions have higher IDs than it has.
type Horizon struct {
	XMin uint64
	At   LSN
}

// endedNow reads a horizon. The statement's snapshot is taken before its functions are called, and a transaction writes its commit
// to the WAL before a snapshot can miss it: so the WAL's end is behind the commits of all that the snapshot does not count as open.
// On a standby the snapshot is ahead of the position that the server tells.
const endedNow = `pg_snapshot_xmin(pg_current_snapshot())::text, coalesce(CASE WHEN NOT pg_is_in_recovery() THEN pg_current_wal_insert_lsn() END, '0/0')::text`

func parseHorizon(xmin, at string) (h Horizon, err error) {
	var place LSN
	if err = place.Scan(at); err != nil || place == 0 {
		return Horizon{}, err
	}
	if h.XMin, err = ParseXMin(xmin); err != nil {
		return Horizon{}, err
	}
	h.At = place
	return h, nil
}

// ParseXMin reads a transaction ID of 64 bits; "" is 0.
func ParseXMin(text string) (uint64, error) {
	if text == "" {
		return 0, nil
	}
	xmin, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("xmin %q is no number", text)
	}
	return xmin, nil
}

// Horizon returns the snapshot's xmin, and the first ID of which it shows nothing, with their epochs. The xmax of a slot's snapshot is
// behind the last commit that the slot has decoded, and may be below its xmin: what ended before that is shown all the same
// (SnapBuildProcessRunningXacts in snapbuild.c).
func (t *TableReader) Horizon(ctx context.Context) (xmin, next uint64, err error) {
	var low, high string
	err = t.inSnapshot(ctx, func() error {
		return t.conn.QueryRow(ctx, "SELECT pg_snapshot_xmin(s)::text, pg_snapshot_xmax(s)::text FROM pg_current_snapshot() s").Scan(&low, &high)
	})
	if err != nil {
		return 0, 0, t.failed(err)
	}
	if xmin, err = ParseXMin(low); err == nil {
		next, err = ParseXMin(high)
	}
	return xmin, max(xmin, next), err
}

// RowsSince returns the condition for rows whose transaction is not below xmin; next is not yet given away. A row has the lower 32 bits
// only. They tell the transactions from xmin to next from all others, unless these are 2^32 or more; of older ones, which are
// frozen, some may look like them, and are repeated.
func RowsSince(xmin, next uint64) (where, text string) {
	if next-xmin >= 1<<32 {
		return "", "all rows: more than 2^32 transactions began since the last saved position"
	}
	return fmt.Sprintf("((xmin::text::bigint - %d) & 4294967295) < %d", uint32(xmin), next-xmin),
		fmt.Sprintf("rows of transaction %d and later ones: all earlier ones had ended before the last saved position", xmin)
}
