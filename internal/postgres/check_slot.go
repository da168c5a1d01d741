package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cdc-relay/cdc-relay/internal/display"
)

// slot looks at the slot and, while no relay reads it, reads from it without moving it.
func (c *checker) slot(ctx context.Context) {
	s := c.survey.Slot
	if s == nil {
		_, err := ReadSlot(ctx, c.db.Conn, c.opts.Slot)
		c.report.Fail("slot", cmp.Or(err, MissingSlot(c.opts.Slot)))
		return
	}
	if s.Problem != nil {
		c.report.Fail("slot", s.Problem)
		return
	}
	held := "no process reads it now"
	if s.ActivePID != 0 {
		held = fmt.Sprintf("PID %d reads it", s.ActivePID)
	} else if err := c.peek(ctx); err != nil {
		c.report.Fail("slot", err)
		return
	} else {
		c.unread = c.neverRead(ctx)
	}
	c.report.OK("slot", "slot %q is at %s and keeps %s of WAL; %s", c.opts.Slot, s.ConfirmedFlushLSN, display.Bytes(s.Retained), held)
	c.room(s)
	c.others(ctx)
	if left, err := c.db.Slot(ctx, RepairSlot(c.opts.Slot)); err == nil && left != nil && left.ActivePID == 0 {
		c.report.Warn("slot", FixLeftSlot(c.opts.Slot), "slot %q is left from a repair that was interrupted, and keeps %s of WAL", RepairSlot(c.opts.Slot), display.Bytes(left.Retained))
	}
}

// others names slots of this database that nobody reads, such as one that has another name in the configuration now.
func (c *checker) others(ctx context.Context) {
	rows, _ := c.db.Conn.Query(ctx, `SELECT slot_name, COALESCE(pg_wal_lsn_diff(`+walEnd+`, restart_lsn), 0)::bigint FROM pg_replication_slots
		WHERE plugin = 'pgoutput' AND database = current_database() AND NOT active AND NOT temporary AND slot_name NOT IN ($1, $2) ORDER BY slot_name`,
		c.opts.Slot, RepairSlot(c.opts.Slot))
	var name string
	var kept int64
	_, _ = pgx.ForEachRow(rows, []any{&name, &kept}, func() error { // of an error the slot's own finding says more
		c.report.Warn("slot", "start its reader, or, if nobody needs it, drop it with `"+dropSlotSQL(name)+"`", "nobody reads slot %q of this database, which keeps %s of WAL", name, display.Bytes(kept))
		return nil
	})
}

// neverRead reports whether nothing was ever decoded from the slot, not even by the look into it: what the tables hold is older. The
// statistics of PostgreSQL 14 come too late to tell.
func (c *checker) neverRead(ctx context.Context) (never bool) {
	err := c.db.Conn.QueryRow(ctx, `SELECT total_txns = 0 FROM pg_stat_replication_slots WHERE slot_name = $1`, c.opts.Slot).Scan(&never)
	return err == nil && never && c.db.Server.Version >= 150000
}

// skipped names tables whose rows are older than a slot that nobody has read: where no checkpoint is stored, nothing else tells of them.
func (c *checker) skipped(ctx context.Context) {
	for _, table := range slices.Sorted(maps.Keys(c.survey.Tables)) {
		t := c.survey.Tables[table]
		if rows, _, err := c.db.HasRows(ctx, pgx.Identifier{t.Schema, t.Name}.Sanitize()); err == nil && rows {
			c.report.Warn("slot", "publish those that consumers lack, if any, with `cdc-relay repair --since TIME`",
				"table %s has rows that are older than slot %q, which nobody has read yet, and no checkpoint tells whether they were published", table, c.opts.Slot)
		}
	}
}

const (
	// peekTime and peekWAL bound what a look into the slot may cost.
	peekTime = 3 * time.Second
	peekWAL  = 16 << 20
)

// peek decodes what comes next, which verifies that the slot can be read with this publication: one that is
// older than its publication cannot.
func (c *checker) peek(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, peekTime)
	defer cancel()
	tx, err := c.db.Conn.Begin(ctx)
	if err != nil {
		return fmt.Errorf("look into slot %s: %w", c.opts.Slot, err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	if _, err := tx.Exec(ctx, fmt.Sprintf("SELECT set_config('statement_timeout', '%d', true), set_config('client_min_messages', 'warning', true)", peekTime.Milliseconds()/2)); err != nil {
		return fmt.Errorf("look into slot %s: %w", c.opts.Slot, err)
	}
	_, err = tx.Exec(ctx, `SELECT count(*) FROM pg_replication_slots s, pg_logical_slot_peek_binary_changes(s.slot_name,
		s.confirmed_flush_lsn + $2::bigint, 1, 'proto_version', '1', 'publication_names', $3) WHERE s.slot_name = $1`,
		c.opts.Slot, int64(peekWAL), pgx.Identifier{c.opts.Publication}.Sanitize())
	var pg *pgconn.PgError
	said, _ := c.db.Conn.PgConn().CustomData()[lastNotice].(*pgconn.Notice)
	switch {
	case err == nil && said != nil && said.Routine == "LoadPublications": // an error up to PostgreSQL 17
		return ReplicationError(&pgconn.PgError{Code: StateUndefinedObject, Message: "publication: " + said.Message}, c.opts.Slot)
	case !errors.As(err, &pg):
		return err
	case pg.Code == stateQueryCanceled, pg.Code == stateObjectInUse, pg.Code == stateInsufficientPrivilege:
		return nil // too much to read now, or a relay has just started; rights are the replication finding's
	}
	return ReplicationError(err, c.opts.Slot)
}

// room warns when the slot has used up most of what max_slot_wal_keep_size leaves it.
func (c *checker) room(s *SlotInfo) {
	if s.SafeWALSize == nil {
		return
	}
	safe := max(0, *s.SafeWALSize) // as in Status
	if limit := s.Retained + safe; limit == 0 || safe > limit*3/10 {
		return
	}
	fix := "raise max_slot_wal_keep_size"
	if s.ActivePID == 0 {
		fix = "start the relay, or " + fix
	}
	c.report.Warn("slot", fix, "slot %q is lost after %s more of WAL (max_slot_wal_keep_size)", c.opts.Slot, display.Bytes(safe))
}

// limits looks at settings that lose a slot, fill a disk or shut a standby out.
func (c *checker) limits(ctx context.Context) {
	l, err := c.readLimits(ctx)
	if err != nil {
		c.report.Info("limits", "", "the server's limits cannot be read (%v)", err)
		return
	}
	c.keep(l)
	spare := l.MaxSenders - l.Senders
	if c.survey.Slot == nil || c.survey.Slot.ActivePID == 0 {
		spare-- // the relay's own
	}
	if spare <= 0 {
		c.report.Warn("limits", "raise max_wal_senders and restart PostgreSQL", "the relay takes the last of %d walsenders, so a standby relay or a new replica finds none free", l.MaxSenders)
	}
	if l.IdleTimeout != "" && l.IdleTimeout != "0" {
		c.report.Warn("limits", "ALTER SYSTEM SET idle_replication_slot_timeout = 0, then SELECT pg_reload_conf()",
			"idle_replication_slot_timeout is %s: a relay that is stopped for longer loses its slot", l.IdleTimeout)
	}
	if c.opts.WaitUntilVisible && !c.db.Server.Standby && namesRelay(l.Synchronous) {
		c.report.Fail("limits", synchronousRelay())
	}
	c.failover(l)
}

type limits struct {
	Senders, MaxSenders int
	// KeepMB is max_slot_wal_keep_size; -1: no limit.
	KeepMB int64
	// WALPerDay is how much was written on average since the statistics were reset; 0: not known.
	WALPerDay int64
	// IdleTimeout came with 18, Synchronized with 17.
	IdleTimeout, Synchronized string
	// Synchronous is synchronous_standby_names.
	Synchronous string
	// Standbys is the number of slots that physical standbys read from.
	Standbys int
}

func (c *checker) readLimits(ctx context.Context) (limits, error) {
	var l limits
	err := c.db.Conn.QueryRow(ctx, `SELECT
		(SELECT count(*) FROM pg_stat_replication), current_setting('max_wal_senders')::int,
		(SELECT setting::bigint FROM pg_settings WHERE name = 'max_slot_wal_keep_size'),
		(SELECT CASE WHEN now() - stats_reset > interval '1 hour' THEN (wal_bytes / extract(epoch FROM now() - stats_reset) * 86400)::bigint ELSE 0 END FROM pg_stat_wal),
		COALESCE(current_setting('idle_replication_slot_timeout', true), ''), COALESCE(current_setting('synchronized_standby_slots', true), ''),
		current_setting('synchronous_standby_names'),
		(SELECT count(*) FROM pg_replication_slots WHERE slot_type = 'physical')`).
		Scan(&l.Senders, &l.MaxSenders, &l.KeepMB, &l.WALPerDay, &l.IdleTimeout, &l.Synchronized, &l.Synchronous, &l.Standbys)
	if err != nil {
		return l, fmt.Errorf("read limits: %w", err)
	}
	return l, nil
}

// leastKeepGB is the least that is suggested for max_slot_wal_keep_size.
const leastKeepGB = 10

// keep: without a limit one stopped relay fills the disk, and PostgreSQL with it.
func (c *checker) keep(l limits) {
	if l.KeepMB >= 0 {
		c.report.OK("limits", "max_slot_wal_keep_size is %s: a stopped relay cannot fill the disk, and loses its slot beyond that", display.Bytes(l.KeepMB<<20))
		return
	}
	keep, why := int64(leastKeepGB), ""
	if l.WALPerDay > 0 {
		keep = max(keep, 2*l.WALPerDay>>30)
		why = fmt.Sprintf("; %s of WAL are written a day on average", display.Bytes(l.WALPerDay))
	}
	c.report.Warn("limits", fmt.Sprintf("ALTER SYSTEM SET max_slot_wal_keep_size = '%dGB', or what the disk can spare, then SELECT pg_reload_conf()", keep),
		"max_slot_wal_keep_size sets no limit, so a stopped relay makes PostgreSQL keep WAL until the disk is full%s", why)
}

// failover: where there are standbys, the slot should live on after a promotion.
func (c *checker) failover(l limits) {
	switch slot := c.survey.Slot; {
	case l.Standbys == 0 && l.Synchronous == "" || slot == nil || slot.Problem != nil:
	case c.db.Server.Version < FailoverSince:
		c.report.Info("failover", "install pg_failover_slots, or upgrade to PostgreSQL 17",
			"this server has standbys, and PostgreSQL %s does not keep slot %q when one is promoted", c.db.Server.Name, c.opts.Slot)
	case !slot.Failover:
		c.report.Warn("failover", fmt.Sprintf("stop the relay and run ALTER_REPLICATION_SLOT %s (FAILOVER) over a replication connection; on the standby set sync_replication_slots, hot_standby_feedback, primary_slot_name, and a dbname in primary_conninfo", pgx.Identifier{c.opts.Slot}.Sanitize()),
			"this server has standbys, and slot %q is lost when one is promoted", c.opts.Slot)
	case l.Synchronized == "":
		c.report.Warn("failover", "set synchronized_standby_slots to the standby's slot",
			"slot %q may run ahead of the standbys: after a promotion events would have been published that the database has lost", c.opts.Slot)
	default:
		c.report.OK("failover", "slot %q is kept on standbys (synchronized_standby_slots = %s)", c.opts.Slot, l.Synchronized)
	}
}
