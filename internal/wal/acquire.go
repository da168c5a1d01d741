package wal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/postgres"
)

// errPromoted ends an attempt whose positions have the former timeline of a standby. Retryable.
var errPromoted = errors.New("PostgreSQL was a standby and is promoted: reconnecting, to follow its new timeline")

const acquireTimeout = 30 * time.Second

// Acquire connects, takes the slot, and only then calls load for the checkpoint: the previous owner
// of the slot may have saved until the end. It applies the start rules (see resolve). When it returns without
// error the slot is held and served, nothing was read, and Run may be called; Release must be when it is not. It returns
// the source's identity and the position from which rows will be handed on.
//
// Errors: [cdc.ErrStandby] while another process holds the slot; a [cdc.StopError] when only a person
// can fix it; anything else is retryable.
func (s *Source) Acquire(ctx context.Context, load cdc.Resumer) (cdc.Source, cdc.Position, error) {
	ctx, cancel := context.WithTimeout(ctx, acquireTimeout)
	defer cancel()
	ss, err := s.connect(ctx)
	if err != nil {
		return cdc.Source{}, "", err
	}
	id, err := ss.acquire(ctx, load)
	if err != nil {
		ss.close(ctx)
		return cdc.Source{}, "", err
	}
	s.read, s.acquired = id, true
	s.confirmed.CompareAndSwap(0, uint64(ss.startAt.slot))
	s.held = ss.hold(ctx)
	return id, postgres.FormatLSN(ss.startAt.from), nil
}

// Release gives up what Acquire took, and forgets what was handed on: the next Acquire starts from what its load returns.
// Run must have ended. Another relay may lead from now on, and move the slot.
func (s *Source) Release(ctx context.Context) {
	if s.held != nil {
		ss, _ := s.held.takeBack()
		ss.close(ctx)
	}
	s.held, s.read, s.handedOn = nil, cdc.Source{}, handedOn{}
	s.positions.reset()
	s.confirmed.Store(0)
	s.saved.Store(s.handed.Load())
}

func (s *Source) connect(ctx context.Context) (*session, error) {
	sql, err := postgres.Connect(ctx, s.opts.Options)
	if err != nil {
		return nil, err
	}
	repl, err := postgres.ConnectReplication(ctx, s.opts.Options)
	if err != nil {
		_ = sql.Close(ctx)
		return nil, err
	}
	ss := newSession(s, sql, repl)
	if ss.serverStarted, err = postgres.SameServer(ctx, sql, repl); err != nil {
		ss.close(ctx)
		return nil, err
	}
	return ss, nil
}

// acquire checks, in the order in which a person would fix things: version, WAL level, publication, slot; then
// it takes the slot and applies the start rules, and last looks at the tables.
func (ss *session) acquire(ctx context.Context, load cdc.Resumer) (cdc.Source, error) {
	if err := ss.checkServer(ctx); err != nil {
		return cdc.Source{}, err
	}
	if err := ss.verifyAsynchronous(ctx, ss.sql); err != nil {
		return cdc.Source{}, err
	}
	if err := ss.awaitTurn(ctx, ss.src.opts.Slot); err != nil {
		return cdc.Source{}, err
	}
	sv, err := ss.identify(ctx)
	if err != nil {
		return cdc.Source{}, err
	}
	if err := ss.readSlotInto(ctx, &sv); err != nil {
		return cdc.Source{}, err
	}
	ss.standby = sv.standby // as of now: a promotion from here on is noticed
	// Again: a standby that was promoted before its slot could be used is on another timeline now, and a position that was saved with the
	// old one would look as if it were of another history.
	promoted, err := ss.identify(ctx)
	if err != nil {
		return cdc.Source{}, err
	}
	sv.source, sv.timeline, sv.forks = promoted.source, promoted.timeline, promoted.forks
	if err := ss.start(ctx); err != nil {
		return cdc.Source{}, err
	}
	// Again: until the slot was ours, its last owner may have moved it, and saved a position behind what was then the
	// end of the WAL.
	if err := ss.readSlotInto(ctx, &sv); err != nil {
		return cdc.Source{}, err
	}
	if ss.startAt, err = ss.resolveStart(ctx, sv, ss.whileHeld(load)); err != nil {
		return cdc.Source{}, err
	}
	return sv.source, ss.checkTables(ctx)
}

// resolveStart applies the start rules to what is stored.
func (ss *session) resolveStart(ctx context.Context, sv server, load cdc.Resumer) (startPoint, error) {
	c, found, err := load(ctx, sv.source)
	if err != nil {
		return startPoint{}, err
	}
	if err := ss.reconnect(ctx); err != nil { // a look that was cut short has closed the connection
		return startPoint{}, err
	}
	s := ss.src
	left, err := leftTables(ctx, ss.sql, s.opts, ss.version, c)
	if err != nil {
		return startPoint{}, err
	}
	p, at, err := startRules{&s.opts, s.baseline, s.read, s.handedOn, s.lastConfirmed(), left}.apply(sv, storedCheckpoint{c, found})
	if at.end > 0 && p.from == at.end {
		s.handedOn = at
	}
	return p, err
}

func (ss *session) checkServer(ctx context.Context) error {
	var level string
	err := ss.sql.QueryRow(ctx, `SELECT current_setting('server_version_num')::int, current_setting('wal_level')`).Scan(&ss.version, &level)
	if err != nil {
		return fmt.Errorf("read the server's version: %w", err)
	}
	if err := postgres.ServerProblem(ss.version, level); err != nil {
		return err
	}
	return ss.checkPublication(ctx)
}

// checkPublication takes the publication as it is at the first acquire of this process as the baseline
// that every later look is compared with, also across reconnects.
func (ss *session) checkPublication(ctx context.Context) error {
	st, err := postgres.ReadPublication(ctx, ss.sql, ss.src.opts.Options, ss.version)
	if err != nil {
		return err
	}
	if ss.src.baseline.Changed(st.Fingerprint, ss.src.opts.tracked) {
		return ss.publicationChanged(ctx, ss.sql) // also when it is gone: a reconnect may see that before a look does
	}
	if st.Problem != nil {
		return st.Problem
	}
	if ss.src.baseline == nil && st.Moves != nil {
		ss.src.log.Warn("events may be published again", "error", st.Moves)
	}
	ss.src.baseline, ss.src.oids, ss.src.types = st.Fingerprint, st.Oids, st.Types
	ss.text = st.Text || ss.src.text
	return nil
}

// checkTables finds a missing column before the first row does. Once rows have been handed on, by this
// process or one before it, the stream is the judge: rows from before an ALTER TABLE still have the column,
// and the first without it stops the relay.
func (ss *session) checkTables(ctx context.Context) error {
	if ss.src.opts.Verify == nil || ss.startAt.lastEnd > 0 || ss.src.handedOn.end > 0 {
		return nil
	}
	tables, _, err := postgres.ReadTables(ctx, ss.sql, ss.src.opts.Options, ss.src.opts.Tables)
	if err != nil {
		return err
	}
	for _, name := range ss.src.opts.Tables {
		if err := ss.src.opts.Verify(tables[name]); err != nil {
			return err
		}
	}
	return nil
}

func (ss *session) identify(ctx context.Context) (server, error) {
	return identify(ctx, ss.repl, cdc.Source{Slot: ss.src.opts.Slot, Fingerprint: ss.src.baseline.String(), Server: ss.serverStarted})
}

// identify completes what is known of the source.
func identify(ctx context.Context, repl *pgconn.PgConn, source cdc.Source) (server, error) {
	id, err := pglogrepl.IdentifySystem(ctx, repl)
	if err != nil {
		return server{}, postgres.IdentifyError(err)
	}
	source.SystemID, source.Database, source.Timeline = id.SystemID, id.DBName, uint32(id.Timeline)
	sv := server{source: source, flushed: id.XLogPos, timeline: source.Timeline}
	err = sv.readForks(ctx, repl)
	return sv, err
}

func (ss *session) readSlotInto(ctx context.Context, sv *server) error {
	if ss.src.opts.Temporary {
		return nil
	}
	row, err := readUsableSlot(ctx, ss.sql, sv)
	if err == nil {
		ss.walsender = row.ActivePID
	}
	return err
}

// readUsableSlot reads the slot into sv, and refuses one that cannot deliver what was promised.
func readUsableSlot(ctx context.Context, sql *pgx.Conn, sv *server) (postgres.SlotRow, error) {
	name := sv.source.Slot
	row, err := postgres.ReadSlot(ctx, sql, name)
	if cdc.ReasonOf(err) == postgres.SlotMissing && row.Recovery { // the slot may not be synchronized yet
		return row, cdc.Fixable("promote it, or name the primary in source.postgres.dsn", "PostgreSQL is a standby and has no replication slot %q", name)
	}
	if err != nil {
		return row, err
	}
	if err := row.Usable(name, sv.source.Database); err != nil {
		return row, err
	}
	sv.flushed, sv.standby = row.Flushed, row.Recovery
	sv.slot, err = pglogrepl.ParseLSN(row.ConfirmedFlushLSN)
	if err != nil {
		return row, fmt.Errorf("read the position of slot %s: %w", name, err)
	}
	return row, nil
}

// readForks reads where the server's history left earlier timelines. Lines of a history file are
// "timeline TAB lsn TAB reason".
func (sv *server) readForks(ctx context.Context, repl *pgconn.PgConn) error {
	if sv.timeline <= 1 {
		return nil
	}
	res, err := pglogrepl.TimelineHistory(ctx, repl, int32(sv.timeline))
	if err != nil {
		return fmt.Errorf("read the history of timeline %d: %w", sv.timeline, err)
	}
	sv.forks = map[uint32]lsn{}
	for line := range strings.Lines(string(res.Content)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		tli, err := strconv.ParseUint(fields[0], 10, 32)
		fork, bad := pglogrepl.ParseLSN(fields[1])
		if err = cmp.Or(err, bad); err != nil {
			return fmt.Errorf("read the history of timeline %d: %w", sv.timeline, err)
		}
		sv.forks[uint32(tli)] = fork
	}
	return nil
}

const (
	// turnWait is how long Acquire waits for a slot that another process reads, and turnInterval how often it looks.
	turnWait     = time.Second
	turnInterval = 50 * time.Millisecond
)

// awaitTurn waits until nobody reads the slot. A standby asks here and not with START_REPLICATION, whose refusals the
// server logs as errors.
func (ss *session) awaitTurn(ctx context.Context, slot string) error {
	if ss.src.opts.Temporary {
		return nil
	}
	for since := time.Now(); ; {
		var pid *int
		var address string // where the connection comes from; "" if that is hidden, or a socket
		err := ss.sql.QueryRow(ctx, `SELECT active_pid, COALESCE(host(client_addr), '')
			FROM pg_replication_slots LEFT JOIN pg_stat_activity ON pid = active_pid WHERE slot_name = $1`, slot).Scan(&pid, &address)
		switch {
		case errors.Is(err, pgx.ErrNoRows), err == nil && pid == nil:
			return nil
		case err != nil:
			return fmt.Errorf("read slot %s: %w", slot, err)
		case time.Since(since) > turnWait:
			if address != "" {
				address = " from " + address
			}
			return fmt.Errorf("%w: replication slot %q is active for PID %d%s", cdc.ErrStandby, slot, *pid, address)
		}
		if err := cdc.Sleep(ctx, turnInterval); err != nil {
			return err
		}
	}
}

// start asks for the stream. Success means the slot is ours.
func (ss *session) start(ctx context.Context) error {
	opts := ss.src.opts
	slot := opts.Slot
	if opts.Temporary {
		slot = fmt.Sprintf("cdc_relay_dry_run_%d", ss.repl.PID())
		_, err := pglogrepl.CreateReplicationSlot(ctx, ss.repl, slot, "pgoutput", pglogrepl.CreateReplicationSlotOptions{Temporary: true, SnapshotAction: "NOEXPORT_SNAPSHOT"})
		if err != nil {
			return postgres.ReplicationError(err, slot)
		}
	}
	args := []string{"proto_version '1'", "publication_names " + postgres.QuoteLiteral(pgx.Identifier{opts.Publication}.Sanitize())}
	if !ss.text {
		args = append(args, "binary 'true'")
	}
	if opts.SlotAlone {
		args = append(args, "messages 'true'") // see altered.go
	}
	err := pglogrepl.StartReplication(ctx, ss.repl, pgx.Identifier{slot}.Sanitize(), 0, pglogrepl.StartReplicationOptions{PluginArgs: args})
	if err != nil {
		return postgres.ReplicationError(err, slot)
	}
	return ss.hijack(ctx)
}

// hijack takes the socket from the driver: from here on frames are cut where they were read, without
// a copy. What the driver has read already is framed again into the first chunk.
func (ss *session) hijack(ctx context.Context) error {
	front := ss.repl.Frontend()
	for front.ReadBufferLen() > 0 {
		msg, err := ss.repl.ReceiveMessage(ctx)
		if err != nil {
			return fmt.Errorf("start replication: %w", err)
		}
		if ss.leftover, err = msg.Encode(ss.leftover); err != nil {
			return fmt.Errorf("start replication: %w", err)
		}
	}
	hijacked, err := ss.repl.Hijack()
	if err != nil {
		return fmt.Errorf("start replication: %w", err)
	}
	ss.conn = hijacked.Conn
	return nil
}
