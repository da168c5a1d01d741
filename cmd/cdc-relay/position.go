package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/wal"
)

func newPositionCommand(a *app) *cobra.Command {
	cmd := group("position", "Show and move where the relay goes on",
		newPositionShowCommand(a), newPositionSetCommand(a), newPositionResetCommand(a))
	cmd.Long = `Show and move where the relay goes on.

Two places hold the position: the slot's confirmed_flush_lsn (S), before which PostgreSQL has let go of its
WAL, and, where one is configured, the checkpoint (C), which never trails S. A run goes on at C, or at S
without one.`
	return cmd
}

// positions is what the position commands work on.
type positions struct {
	app    *app
	config *config.Config
	wal    wal.Options
	db     *wal.Database
	store  store
}

// with opens database and store for fn and closes them afterwards.
func (p *positions) with(ctx context.Context, a *app, fn func(context.Context) error) (err error) {
	p.app = a
	if p.config, err = a.load(); err != nil {
		return err
	}
	if p.wal, err = walOptions(p.config); err != nil {
		return err
	}
	if p.store, err = newStore(p.config); err != nil {
		return err
	}
	defer func() { _ = p.store.Close() }()
	if p.db, err = wal.OpenDatabase(ctx, p.wal.DSN); err != nil {
		return err
	}
	defer p.db.Close(ctx)
	return fn(ctx)
}

func (p *positions) inspect(ctx context.Context) (wal.Inspection, error) {
	return p.db.Inspect(ctx, p.wal, p.store.Load)
}

func newPositionSetCommand(a *app) *cobra.Command {
	var (
		p   positions
		yes bool
	)
	cmd := &cobra.Command{
		Use:   "set LSN",
		Short: "Go on from another place in the WAL",
		Long: `Go on from another place in the WAL. The relay must be stopped.

Going back repeats: events committed behind the new position are published again. It goes back no further
than the slot, because PostgreSQL has let go of the WAL before that.

Going forward skips: events committed before the new position and not published yet never are. It takes
--yes, moves the slot too, and there is no way back.`,
		Example: "  cdc-relay position set 16/B374D848\n  cdc-relay position set 00000016B374D848 --yes",
		Args:    exactlyOne("an LSN, such as 16/B374D848"),
		RunE: func(cmd *cobra.Command, args []string) error {
			to, err := wal.ParsePosition(cdc.Position(args[0]))
			if err != nil || to == "" {
				return usage("%q is not an LSN: write it as PostgreSQL prints it (16/B374D848) or as 16 hex digits", args[0])
			}
			return p.with(cmd.Context(), a, func(ctx context.Context) error { return p.set(ctx, to, yes) })
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "go forward, over events that are then never published")
	return cmd
}

func exactlyOne(what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return fmt.Errorf("give %s", what)
		}
		return nil
	}
}

func (p *positions) set(ctx context.Context, to cdc.Position, yes bool) error {
	in, err := p.inspect(ctx)
	if err != nil {
		return err
	}
	if in.LoadErr != nil {
		return in.LoadErr
	}
	if in.Found && !in.Checkpoint.Source.Same(in.Source) {
		return in.Refused
	}
	move, err := in.Plan(to)
	if err != nil {
		return err
	}
	if move.Skips > 0 && !yes {
		return usage("%s is a move forward over %s of WAL, whose unpublished events would never be published: give --yes if that is meant", display(to), byteSize(move.Skips))
	}
	if err := p.store.Save(ctx, moved(in, move.To)); err != nil {
		return err
	}
	if move.Slot && move.Skips > 0 {
		if _, err := p.db.AdvanceSlot(ctx, p.wal.Slot, move.To); err != nil {
			return err
		}
	}
	p.sayMove(move)
	return nil
}

// moved is the checkpoint of a position set by hand. Its generation is a new one, so that a relay that
// was overlooked can save no more.
func moved(in wal.Inspection, to cdc.Position) cdc.Checkpoint {
	c := in.Checkpoint
	c.Source = in.Source
	c.Progress.Position = to
	if c.Progress.Commit > to { // positions sort as text; a commit that comes again is not the last one
		c.Progress.Commit, c.Progress.TxID, c.LastEventID = "", "", ""
	}
	c.Generation, c.Sequence, c.SavedAt = c.Generation+1, 0, time.Now()
	return c
}

func (p *positions) sayMove(m wal.Move) {
	switch {
	case m.Skips > 0:
		p.app.printf("position is %s now, %s further: what was not published before it never will be\n", display(m.To), byteSize(m.Skips))
	case m.Repeats > 0:
		p.app.printf("position is %s now, %s back: events committed behind it are published again\n", display(m.To), byteSize(m.Repeats))
	default:
		p.app.printf("position is %s already\n", display(m.To))
	}
}

func newPositionResetCommand(a *app) *cobra.Command {
	var (
		p   positions
		yes bool
	)
	cmd := &cobra.Command{
		Use:   "reset",
		Short: "Forget the checkpoint and go on from the slot",
		Long: `Forget the stored checkpoint, so that the next run goes on from the slot. The relay must be stopped.

Events committed between slot and checkpoint are published again. Where the slot stands ahead of the
checkpoint they are skipped instead, which takes --yes.`,
		Example: "  cdc-relay position reset",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.with(cmd.Context(), a, func(ctx context.Context) error { return p.reset(ctx, yes) })
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "go on from a slot that stands ahead, over events that are then never published")
	return cmd
}

func (p *positions) reset(ctx context.Context, yes bool) error {
	in, err := p.inspect(ctx)
	if err != nil {
		return err
	}
	var stop *cdc.StopError
	if in.LoadErr != nil && (!errors.As(in.LoadErr, &stop) || stop.Class != cdc.ClassPosition) {
		return in.LoadErr // what is stored but of no use is what reset is for
	}
	if err := in.Idle(); err != nil && in.Slot != nil {
		return err
	}
	place := storePlace(p.config)
	if place == "" {
		p.app.printf("no checkpoint is configured: the slot alone holds the position\n")
		return nil
	}
	if !in.Found && in.LoadErr == nil {
		p.app.printf("no checkpoint is stored in %s: the next run goes on from slot %s\n", place, p.wal.Slot)
		return nil
	}
	if stop = nil; errors.As(in.Refused, &stop) && stop.Reason == "slot_ahead" && !yes {
		return usage("slot %q stands ahead of the checkpoint, so events between them may never have been published: give --yes if they were, or are not wanted", p.wal.Slot)
	}
	if err := p.store.Reset(ctx); err != nil {
		return err
	}
	p.app.printf("checkpoint in %s: dropped; the next run goes on from slot %s\n", place, p.wal.Slot)
	return nil
}
