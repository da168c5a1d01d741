package wal

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/postgres"
)

const (
	// replyPause is the least time between answers to keepalives that ask for one: a server that is
	// shutting down asks again at once, hundreds of thousands of times, until all is confirmed.
	replyPause = 100 * time.Millisecond
	// statusInterval is how often the position is reported unprompted; wal_sender_timeout is longer.
	statusInterval = 3 * time.Second
	// stoppingPings is how many such questions at one WAL end, in quick succession, mean a shutdown.
	stoppingPings = 5
	writeTimeout  = 10 * time.Second
	// manyKeepalives between two statuses have the server send none for quietAhead of WAL. Before it sleeps, a walsender sends one to a
	// client that has neither written nor flushed all that was sent: one for each commit of any table, each of which wakes the relay.
	manyKeepalives = 8
	quietAhead     = 16 << 20
	// behindAfter is longer than a server that has sent everything takes to say so: it is asked every statusInterval.
	behindAfter = 10 * time.Second
	// walPage: of a record that goes on on the next page, the server may have flushed this page only. It sends whole records.
	walPage = 8 << 10
)

// status is what was said to the server last, and when.
type status struct {
	at        time.Time
	position  lsn
	written   lsn       // how far ahead keepalives are not wanted
	heartbeat time.Time // when a keepalive's position was last handed on
	// Since then: keepalives that nobody asked for, and the last one's WAL end.
	keepalives int
	walEnd     lsn
}

// pings counts keepalives that ask for a reply at one WAL end.
type pings struct {
	walEnd lsn
	last   time.Time
	n      int
	due    bool // one is unanswered
}

func (p *pings) add(walEnd lsn, now time.Time) {
	if walEnd != p.walEnd || now.Sub(p.last) > time.Second {
		p.n = 0
	}
	p.walEnd, p.last, p.due = walEnd, now, true
	p.n++
}

// tick does what time asks for: it takes the result of the last look, answers the server, reports unprompted,
// and hangs up on a server that waits for that to shut down. It never waits for anything but the socket.
func (ss *session) tick(ctx context.Context, now time.Time) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case err := <-ss.monitor.failed:
		return err
	default:
	}
	ss.src.lastTick.Store(now.UnixNano())
	ss.noteBehind()
	if ss.pings.n >= stoppingPings {
		return fmt.Errorf("%w: it waits for this connection to end", postgres.ErrStopping)
	}
	since := now.Sub(ss.said.at)
	ss.advance()
	switch {
	case ss.pings.due && since >= replyPause,
		ss.src.lastConfirmed() > ss.said.position && since >= replyPause,
		since >= statusInterval:
		return ss.sayStatus(now)
	}
	return nil
}

// noteBehind keeps a look at the WAL until the stream has come to where it ended then; nil: it has come to where the last look ended.
// A later look would hide how long that takes, and one of an earlier session may be of a server whose WAL ended elsewhere.
func (ss *session) noteBehind() {
	passed := func(look *cdc.SlotStatus) bool { return look == nil || lsn(look.End) <= ss.reached+walPage }
	switch look := ss.monitor.look.Load(); {
	case ss.out == nil || !passed(ss.src.behind.Load()): // out is nil before Run
	case passed(look):
		ss.src.behind.Store(nil)
	default:
		ss.src.behind.Store(look)
	}
}

func (ss *session) untilTick() time.Duration {
	if ss.pings.due {
		return max(time.Millisecond, replyPause-time.Since(ss.said.at))
	}
	return tickInterval
}

// advance moves the position that the server may be told: durable downstream (Confirm), and received
// before the last look that found the publication unchanged. It stays where it is until the commit that must come again
// has come (rule 5 of resolve), and the WAL up to the checkpoint (rule 6): the checkpoint may be of another history.
func (ss *session) advance() {
	if ss.startAt.expect != 0 || max(ss.reached, ss.startAt.slot) < ss.startAt.from {
		return
	}
	s := ss.src
	if k, ok := s.positions.trim(min(s.saved.Load(), ss.monitor.good.Load())); ok && k.resume > s.lastConfirmed() {
		s.confirmed.Store(uint64(k.resume))
	}
}

// sayStatus sends a Standby status update. Flushed and applied are the confirmed position, before which the server discards. Written is
// shown in pg_stat_replication, counts for synchronous_commit = remote_write, and stops keepalives: see manyKeepalives. The status that is due
// when nothing was confirmed asks for a keepalive, so that the position moves on: a server that was told to send none, or that catches up, sends
// none by itself. Before Run nobody reads it.
func (ss *session) sayStatus(now time.Time) error {
	var frame [frameHeader + 34]byte
	frame[0] = frameCopyData
	binary.BigEndian.PutUint32(frame[1:], uint32(len(frame)-1))
	body, confirmed := frame[frameHeader:], ss.src.lastConfirmed()
	if ss.said.keepalives >= manyKeepalives && ss.src.opts.WaitUntilVisible { // so no commit waits for the relay
		ss.said.written = ss.said.walEnd + quietAhead
	}
	body[0] = 'r'
	for i, position := range [3]lsn{max(confirmed, ss.said.written), confirmed, confirmed} {
		binary.BigEndian.PutUint64(body[1+8*i:], uint64(position))
	}
	if ss.out != nil && now.Sub(ss.said.at) >= statusInterval {
		body[33] = 1
	}
	binary.BigEndian.PutUint64(body[25:], uint64(now.UnixMicro()-postgres.EpochMicros))
	if err := ss.write(frame[:]); err != nil {
		return err
	}
	ss.said.at, ss.said.position, ss.said.keepalives, ss.pings.due = now, confirmed, 0, false
	return nil
}

func (ss *session) write(b []byte) error {
	if err := ss.conn.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return fmt.Errorf("send status: %w", err)
	}
	if _, err := ss.conn.Write(b); err != nil {
		return fmt.Errorf("send status: %w", err)
	}
	return nil
}

// waitForSpace serves the connection until a refused batch may be offered again.
func (ss *session) waitForSpace(ctx context.Context) error {
	timer := time.NewTimer(tickInterval)
	defer timer.Stop()
	select {
	case <-ss.out.Space():
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	case err := <-ss.monitor.failed:
		return err
	}
	return ss.tick(ctx, time.Now())
}

// farewellTimeout bounds what a stop waits for the server.
const farewellTimeout = 2 * time.Second

// farewell tells the server the last confirmed position, so that a clean stop is followed by no
// duplicate even where the slot is the only position. The publication is looked at once more first.
func (ss *session) farewell(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, farewellTimeout)
	defer cancel()
	seen := ss.src.handed.Load()
	if err := ss.monitor.once(ctx, seen); err != nil && !errors.Is(err, errPromoted) {
		return nil
	}
	ss.advance()
	// CopyDone, Terminate. Then read to the end: closing a socket with unread data resets it, and the
	// server might never see what was just said.
	if ss.sayStatus(time.Now()) != nil || ss.write([]byte{'c', 0, 0, 0, 4, 'X', 0, 0, 0, 4}) != nil {
		return nil
	}
	if err := ss.conn.SetReadDeadline(time.Now().Add(farewellTimeout)); err == nil {
		_, _ = io.Copy(io.Discard, ss.conn)
	}
	return nil
}
