package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// SlotRow is a row of pg_replication_slots. It is read as JSON because its columns differ between
// versions: wal_status came with 13, invalidation_reason with 17.
type SlotRow struct {
	Plugin             string  `json:"plugin"`
	SlotType           string  `json:"slot_type"`
	Database           string  `json:"database"`
	ActivePID          int     `json:"active_pid"`
	ConfirmedFlushLSN  string  `json:"confirmed_flush_lsn"`
	WALStatus          string  `json:"wal_status"`
	SafeWALSize        *int64  `json:"safe_wal_size"`
	InvalidationReason string  `json:"invalidation_reason"`
	Conflicting        bool    `json:"conflicting"`
	Failover           bool    `json:"failover"`
	TwoPhase           bool    `json:"two_phase"`
	Synced             bool    `json:"synced"` // with 17; still true once the standby was promoted
	Recovery           bool    `json:"-"`
	Retained           int64   `json:"-"`
	Flushed            LSN     `json:"-"`
	Ended              Horizon `json:"-"`
	// ClockAhead is how far the server's clock is ahead.
	ClockAhead time.Duration `json:"-"`
}

// walEnd reads the end of the WAL also on a standby, from which 16 and later can decode.
const walEnd = `CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_flush_lsn() END`

// Reasons for which repair makes another slot: there is none, and it cannot be read.
const (
	SlotMissing = "slot_missing"
	SlotLost    = "slot_lost"
)

// ReadSlot reads a slot; its absence is the error of [MissingSlot].
func ReadSlot(ctx context.Context, conn *pgx.Conn, name string) (SlotRow, error) {
	var row SlotRow
	var doc []byte
	var flushed, xmin, inserted string
	var repairs bool
	var clock time.Time
	asked := time.Now()
	err := conn.QueryRow(ctx, `SELECT to_jsonb(s), COALESCE(pg_wal_lsn_diff(`+walEnd+`, s.restart_lsn), 0)::bigint, (`+walEnd+`)::text, pg_is_in_recovery(), clock_timestamp(), `+endedNow+`,
		EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = $2)
		FROM (SELECT) AS one LEFT JOIN pg_replication_slots s ON s.slot_name = $1`, name, RepairSlot(name)).Scan(&doc, &row.Retained, &flushed, &row.Recovery, &clock, &xmin, &inserted, &repairs)
	if err == nil && doc == nil && repairs {
		return row, cdc.PositionError(SlotMissing, "run that repair or setup again if it was interrupted, or wait for its end",
			"replication slot %q does not exist, and a repair, or a setup with --backfill, which makes it at its end, runs or was interrupted", name)
	}
	if err == nil && doc == nil {
		return row, MissingSlot(name)
	}
	if err != nil {
		return row, fmt.Errorf("read slot %s: %w", name, err)
	}
	if err := json.Unmarshal(doc, &row); err != nil {
		return row, fmt.Errorf("read slot %s: %w", name, err)
	}
	row.ConfirmedFlushLSN = plainLSN(row.ConfirmedFlushLSN)
	row.ClockAhead = cdc.ClockAhead(asked, clock)
	if row.Flushed, err = pglogrepl.ParseLSN(flushed); err == nil {
		row.Ended, err = parseHorizon(xmin, inserted)
	}
	if err != nil {
		return row, fmt.Errorf("read the server's WAL end: %w", err)
	}
	return row, nil
}

// plainLSN is a position as the relay prints it: from PostgreSQL 19 on the server's text has leading zeros.
func plainLSN(text string) string {
	if at, err := pglogrepl.ParseLSN(text); err == nil {
		return at.String()
	}
	return text
}

// MissingSlot says that there is no such slot.
func MissingSlot(name string) error {
	return cdc.PositionError(SlotMissing,
		"if it existed, publish what it did not send from the outbox table, and make it again, with `cdc-relay repair`, without a checkpoint `cdc-relay repair --since TIME`; otherwise create it with `cdc-relay setup`",
		"replication slot %q does not exist", name)
}

// thenKeepMore is what to do afterwards with a slot that fell behind, as one can while it is read.
const thenKeepMore = "; then raise max_slot_wal_keep_size"

func lostSlot(name, why, then string) error {
	return cdc.PositionError(SlotLost,
		"publish what it did not send from the outbox table, and make it again, with `cdc-relay repair`, without a checkpoint `cdc-relay repair --since TIME`"+then,
		"replication slot %q is lost (%s), and with it WAL that was not relayed yet", name, why)
}

const fixOtherSlot = "set source.postgres.slot to another name" + fixNoSlot

const fixNoSlot = "; for a first run create that slot with `cdc-relay setup`; if a relay has run before, publish what was not sent, and create it, with `cdc-relay repair --since TIME`"

// Usable refuses a slot that cannot deliver what was promised.
func (r SlotRow) Usable(name, database string) error {
	switch {
	case r.SlotType != "logical" || r.Plugin != "pgoutput":
		return cdc.ConfigError("wrong_slot", fixOtherSlot, "replication slot %q is a %s slot with plugin %q, not a logical one with pgoutput", name, r.SlotType, r.Plugin)
	case r.Database != database:
		return cdc.ConfigError("wrong_slot", fixOtherSlot, "replication slot %q belongs to database %q, and this relay reads %q (slot names are unique in a server)", name, r.Database, database)
	case r.TwoPhase: // from 15 on
		return cdc.ConfigError("wrong_slot", "drop it with `"+dropSlotSQL(name)+"`"+fixNoSlot, "replication slot %q was made with two_phase, so that PostgreSQL sends prepared transactions before they are committed", name)
	case r.Synced && r.Recovery: // waits for the promotion, or for the primary
		return cdc.Fixable("promote it, or name the primary in source.postgres.dsn", "PostgreSQL is a standby that synchronizes slot %q from its primary", name)
	case r.WALStatus == "lost" || r.InvalidationReason != "" || r.Conflicting:
		return lostSlot(name, cmp.Or(r.InvalidationReason, "wal_removed: it fell behind max_slot_wal_keep_size"), map[string]string{"": thenKeepMore, "wal_removed": thenKeepMore, "idle_timeout": "; then set idle_replication_slot_timeout to 0"}[r.InvalidationReason])
	case r.ConfirmedFlushLSN == "":
		return cdc.Fixable("wait for the end of these transactions, or end them; `SELECT pid, xact_start FROM pg_stat_activity WHERE backend_xid IS NOT NULL` names them",
			"replication slot %q has no position yet: PID %d makes it, and waits for transactions that were open before", name, r.ActivePID)
	}
	return nil
}

// Status returns what people see of the slot; received is how far a relay has read.
func (r SlotRow) Status(received LSN) cdc.SlotStatus {
	s := cdc.SlotStatus{Status: r.WALStatus, RetainedBytes: r.Retained, LagBytes: int64(max(r.Flushed, received) - received), End: uint64(r.Flushed)}
	if r.SafeWALSize != nil {
		safe := max(0, *r.SafeWALSize) // less than 0 in the state unreserved
		s.SafeBytes = &safe
	}
	return s
}

// FailoverSince is the first version that synchronizes slots to standbys.
const FailoverSince = 170000

const repairSuffix = "_repair"

// maxSlotName is the longest name of a slot.
const maxSlotName = 63

// RepairSlot is the name of the slot that a repair makes.
func RepairSlot(slot string) string {
	return slot[:min(len(slot), maxSlotName-len(repairSuffix))] + repairSuffix
}

// FixLeftSlot is what to do with the slot that an interrupted repair left behind one that can be read. No relay drops it by itself: it
// might be another one's.
func FixLeftSlot(slot string) string {
	return "unless a repair runs now, drop it with `" + dropSlotSQL(RepairSlot(slot)) + "`"
}
