package wal

import (
	"context"
	"fmt"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/postgres"
)

// held is a session that is served until it is taken back: opening Kafka may take longer than wal_sender_timeout, and a
// server that shuts down waits for us. It sends status and reads nothing, so what the server sends waits in the socket.
type held struct {
	ss     *session // not to be touched before takeBack
	cancel context.CancelFunc
	done   chan struct{}
	err    error // why the connection is of no use any more; read after done
}

// hold gives the session away, and starts the looks. Its connections are the caller's again after takeBack.
func (ss *session) hold(ctx context.Context) *held {
	ss.monitor = startMonitor(ctx, ss)
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	h := &held{ss: ss, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(h.done)
		if h.err = ss.serve(ctx); h.err != nil {
			_ = ss.conn.Close() // now: the server may be waiting for that
		}
	}()
	return h
}

// takeBack returns the session, which the caller has to close, and why it is of no use any more.
func (h *held) takeBack() (*session, error) {
	h.cancel()
	<-h.done
	h.ss.monitor.stop()
	return h.ss, h.err
}

// whileHeld serves the connection during load, which may have to wait for Kafka.
func (ss *session) whileHeld(load cdc.Resumer) cdc.Resumer {
	return func(ctx context.Context, id cdc.Source) (cdc.Checkpoint, bool, error) {
		h := ss.hold(ctx)
		c, found, err := load(ctx, id)
		if _, held := h.takeBack(); err == nil {
			err = held
		}
		return c, found, err
	}
}

// verifyHeld returns an error if the slot is not ours any more. Since Acquire the sink was opened, so a successor that takes
// the slot from here on fences us; but one that took it before was fenced by us, and what the server had sent us until then is
// old.
func (ss *session) verifyHeld(ctx context.Context) error {
	if ss.walsender == 0 {
		return nil
	}
	looking, cancel := context.WithTimeout(ctx, monitorTimeout)
	defer cancel()
	if err := ss.reconnect(looking); err != nil { // a look that was cut short has closed the connection
		return err
	}
	row, err := postgres.ReadSlot(looking, ss.sql, ss.src.opts.Slot)
	if err == nil && row.ActivePID != ss.walsender {
		err = fmt.Errorf("replication slot %q was lost before it was read", ss.src.opts.Slot)
	}
	return err
}

// serve loops until ctx ends or an attempt would have failed.
func (ss *session) serve(ctx context.Context) error {
	ticker := time.NewTicker(tickInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-ss.monitor.failed:
			return err
		case <-ticker.C:
		}
		if err := ss.tick(context.WithoutCancel(ctx), time.Now()); err != nil {
			return err
		}
	}
}
