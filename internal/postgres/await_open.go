package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// AwaitOpen waits for the end of the transactions that are open now and have an ID. If that takes long, waits is called once with their names.
func (d *Database) AwaitOpen(ctx context.Context, waits func(who string)) error {
	var next string
	err := d.Conn.QueryRow(ctx, "SELECT pg_snapshot_xmax(pg_current_snapshot())::text").Scan(&next)
	for began, told := time.Now(), false; err == nil; {
		var ended bool
		if err = d.Conn.QueryRow(ctx, "SELECT pg_snapshot_xmin(pg_current_snapshot()) >= $1::text::xid8", next).Scan(&ended); ended {
			return nil
		}
		if time.Since(began) > ExecTimeout {
			return SlotWaits(fmt.Errorf("wait for the transactions that were open: they were not done after %s (%s)", ExecTimeout, d.Open(ctx)))
		}
		if !told && time.Since(began) > waitsSilently {
			told = true
			waits(d.Open(ctx))
		}
		if err := cdc.Sleep(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	return fmt.Errorf("wait for the transactions that are open: %w", err)
}

// SlotWaits is the error of a repair that waits too long for transactions.
func SlotWaits(err error) error {
	return cdc.Stop(cdc.ClassRuntime, "slot_waits", err, "end the transactions that were open then, also prepared ones, or wait for their end, and run the same command again")
}
