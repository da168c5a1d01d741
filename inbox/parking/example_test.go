package parking_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/cdc-relay/cdc-relay/inbox"
	"github.com/cdc-relay/cdc-relay/inbox/parking"
	"github.com/cdc-relay/cdc-relay/writer"
)

// An operator lists what is parked, has it handled again after a handler was repaired, and drops the rest.
func Example() {
	repaired := func(ctx context.Context, in *inbox.Inbox[*sql.Tx]) error {
		p, err := parking.New(in)
		if err != nil {
			return err
		}
		for row, err := range p.List(ctx, parking.Filter{Error: "out of stock"}) {
			if err != nil {
				return err
			}
			fmt.Println(row.ID, row.Message.Attempt, row.Error)
		}
		if _, err := p.Retry(ctx, parking.Filter{Type: "OrderPlaced"}); err != nil {
			return err
		}
		_, err = p.Drop(ctx, parking.Filter{Before: time.Now().AddDate(0, 0, -30)})
		return err
	}
	_ = repaired
}

// A consumer with a loop of its own: a message that fails is parked, and those of its key follow. blocked begins as what
// Blocked returns once the partition's first records are there.
func ExampleParking_Park() {
	handle := func(ctx context.Context, in *inbox.Inbox[*sql.Tx], p *parking.Parking[*sql.Tx], blocked map[parking.Key]bool, m *inbox.Message, h inbox.Handler[*sql.Tx]) error {
		key := parking.KeyOf(m)
		if blocked[key] {
			if follows, err := p.Follow(ctx, m); err != nil || follows {
				return err
			}
			delete(blocked, key)
		}
		repeat, err := in.Handle(ctx, m, func(ctx context.Context, tx *sql.Tx, u *writer.Unit) error { return h(ctx, tx, u, m) })
		switch {
		case repeat: // handled before, or parked by the partition's former owner
			blocked[key], err = p.IsParked(ctx, m)
		case err != nil && !errors.Is(err, inbox.ErrDatabase): // a database that fails is no reason to park
			if _, err = p.Park(ctx, m, err); err == nil {
				blocked[key], err = p.IsParked(ctx, m) // another process may have handled it in between
			}
		}
		return err
	}
	_ = handle
}

// The owner of a partition tries parked messages again.
func ExampleParking_Redo() {
	again := func(ctx context.Context, p *parking.Parking[*sql.Tx], topic string, partition int32, h inbox.Handler[*sql.Tx]) error {
		ready, err := p.Ready(ctx, topic, partition)
		for _, row := range ready {
			_, err := p.Redo(ctx, row, func(ctx context.Context, tx *sql.Tx, u *writer.Unit) error { return h(ctx, tx, u, row.Message) })
			if err == nil || errors.Is(err, inbox.ErrDatabase) {
				continue
			}
			if err := p.Failed(ctx, row, err); err != nil {
				return err
			}
		}
		return err
	}
	_ = again
}

// An operator lists, retries and drops over HTTP. The service says who is one.
func ExampleParking_Handler() {
	mount := func(mux *http.ServeMux, p *parking.Parking[*sql.Tx], onlyOperators func(http.Handler) http.Handler) {
		mux.Handle("/parked/", onlyOperators(http.StripPrefix("/parked", p.Handler())))
	}
	_ = mount
	// curl http://localhost:8080/parked/
	// curl -H "Content-Type: application/json" -d '{"type": "OrderPlaced"}' http://localhost:8080/parked/retry
}
