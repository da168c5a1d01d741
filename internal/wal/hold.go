package wal

import (
	"context"
	"time"
)

// holder serves an acquired connection until Run takes over: opening Kafka may take longer than wal_sender_timeout, and a
// server that shuts down waits for us. It sends status and reads nothing, so what the server sends waits in the socket.
type holder struct {
	cancel context.CancelFunc
	done   chan struct{}
	err    error // why the connection is of no use any more; read after done
}

// hold gives the connection to a holder, and starts the looks.
func (ss *session) hold(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	ss.monitor = startMonitor(ctx, ss)
	ctx, cancel := context.WithCancel(ctx)
	h := &holder{cancel: cancel, done: make(chan struct{})}
	ss.holder = h
	go func() {
		defer close(h.done)
		if h.err = ss.serve(ctx); h.err != nil {
			_ = ss.conn.Close() // now: the server may be waiting for that
		}
	}()
}

// takeBack makes the caller the owner of the connection, or returns why it is of no use.
func (ss *session) takeBack() error {
	if ss.holder == nil {
		return nil
	}
	ss.holder.cancel()
	<-ss.holder.done
	return ss.holder.err
}

// serve comes round until ctx ends or an attempt would have failed.
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
