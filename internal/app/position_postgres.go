package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/checkpoint"
	"github.com/cdc-relay/cdc-relay/internal/display"
	"github.com/cdc-relay/cdc-relay/internal/postgres"
	"github.com/cdc-relay/cdc-relay/internal/wal"
)

// postgresPositions is one position command on PostgreSQL.
type postgresPositions struct {
	positions
	*Postgres

	db *postgres.Database
}

// at opens the database for fn.
func (p *Postgres) at(ctx context.Context, at positions, fn func(*postgresPositions) error) error {
	db, err := postgres.OpenDatabase(ctx, p.WAL.Options)
	if err != nil {
		return err
	}
	defer db.Close(ctx)
	return fn(&postgresPositions{at, p, db})
}

// ShowPositions implements [Database].
func (p *Postgres) ShowPositions(ctx context.Context, at *checkpoint.Places) (answer any, lines [][2]string, err error) {
	err = p.at(ctx, positions{Places: at}, func(p *postgresPositions) error {
		answer, lines, err = p.show(ctx)
		return err
	})
	return answer, lines, err
}

// SetPosition implements [Database].
func (p *Postgres) SetPosition(ctx context.Context, at *checkpoint.Places, text string, yes bool, printf Printf) error {
	to, err := postgres.ParsePosition(cdc.Position(text))
	if err != nil || to == "" {
		return cdc.Usage("write it as PostgreSQL prints it (16/B374D848) or as 16 hex digits", "%q is not an LSN", text)
	}
	return p.at(ctx, positions{at, printf}, func(p *postgresPositions) error { return p.set(ctx, to, yes) })
}

// ResetPosition implements [Database].
func (p *Postgres) ResetPosition(ctx context.Context, at *checkpoint.Places, yes bool, printf Printf) error {
	return p.at(ctx, positions{at, printf}, func(p *postgresPositions) error { return p.reset(ctx, yes) })
}

func (p *postgresPositions) inspect(ctx context.Context) (wal.Inspection, error) {
	return wal.Inspect(ctx, p.db, p.WAL, p.Resume)
}

// shownPosition is a position in both forms.
type shownPosition struct {
	LSN string `json:"lsn"`
	Hex string `json:"hex"`
}

func shown(p cdc.Position) *shownPosition {
	parsed, err := postgres.ParsePosition(p)
	if err != nil || parsed == "" {
		return nil
	}
	return &shownPosition{LSN: postgres.DisplayPosition(parsed), Hex: string(parsed)}
}

func (p *shownPosition) String() string {
	if p == nil {
		return "none"
	}
	return p.LSN + "  " + p.Hex
}

// shownPositions is the answer of position show.
type shownPositions struct {
	SystemID string `json:"system_id"`
	Database string `json:"database"`
	Timeline uint32 `json:"timeline"`
	SlotName string `json:"slot_name"`
	// Slot is S, nil if there is none.
	Slot          *shownPosition `json:"slot"`
	SlotPID       int            `json:"slot_active_pid,omitempty"`
	SlotStatus    string         `json:"slot_status,omitempty"`
	RetainedBytes int64          `json:"slot_retained_bytes"`
	WALEnd        *shownPosition `json:"wal_end"`
	Place         string         `json:"checkpoint_place,omitempty"`
	// Checkpoint is C, nil if there is none.
	Checkpoint  *shownPosition `json:"checkpoint"`
	LoadError   string         `json:"checkpoint_error,omitempty"`
	LastCommit  *shownPosition `json:"last_outbox_commit"`
	TxID        string         `json:"last_outbox_txid,omitempty"`
	LastEventID string         `json:"last_event_id,omitempty"`
	Generation  uint64         `json:"generation"`
	Sequence    uint64         `json:"sequence"`
	SavedAt     *time.Time     `json:"saved_at,omitempty"`
	Next        *shownPosition `json:"next_start"`
	Refused     string         `json:"next_start_refused,omitempty"`
}

func (p *postgresPositions) show(ctx context.Context) (any, [][2]string, error) {
	in, err := p.inspect(ctx)
	if err != nil {
		return nil, nil, err
	}
	s := present(in, p.Location())
	lines := s.lines(&in.Checkpoint)
	return s, lines, nil
}

func present(in wal.Inspection, location string) shownPositions {
	s := shownPositions{
		SystemID: in.Source.SystemID, Database: in.Source.Database, Timeline: in.Source.Timeline, SlotName: in.Source.Slot,
		WALEnd: shown(in.WALEnd), Place: location, Next: shown(in.From),
	}
	if in.Slot != nil {
		s.Slot, s.SlotPID = shown(cdc.Position(in.Slot.Confirmed)), in.Slot.ActivePID
		s.SlotStatus, s.RetainedBytes = in.Slot.WALStatus, in.Slot.RetainedBytes
	}
	if c := in.Checkpoint; in.Found {
		s.Checkpoint, s.LastCommit = shown(c.Progress.Position), shown(c.Progress.Commit)
		s.TxID, s.LastEventID, s.Generation, s.Sequence = c.Progress.TxID, c.LastEventID, c.Generation, c.Sequence
		s.SavedAt = &c.SavedAt
	}
	if in.LoadErr != nil && !in.Found {
		s.LoadError = cdc.Explain(in.LoadErr)
	}
	if in.Refused != nil {
		s.Next, s.Refused = nil, cdc.Explain(in.Refused)
	}
	return s
}

func (s *shownPositions) lines(c *cdc.Checkpoint) [][2]string {
	lines := [][2]string{
		{"database", fmt.Sprintf("%s, system %s, timeline %d", s.Database, s.SystemID, s.Timeline)},
		{"slot (S)", s.slotLine()},
		{"checkpoint (C)", s.checkpointLine()},
	}
	if s.Checkpoint != nil {
		lines = append(lines, savedLines(s.LastCommit.String()+display.Suffix("  xid ", s.TxID), c)...)
	}
	lines = append(lines, [2]string{"end of WAL", s.WALEnd.String()})
	if s.Refused != "" {
		return append(lines, [2]string{"next start", "refused: " + s.Refused})
	}
	return append(lines, [2]string{"next start", s.Next.String()})
}

func (s *shownPositions) slotLine() string {
	if s.Slot == nil {
		return s.SlotName + " does not exist"
	}
	held := "not in use"
	if s.SlotPID != 0 {
		held = fmt.Sprintf("in use by PID %d", s.SlotPID)
	}
	return fmt.Sprintf("%s  %s, %s, keeps %s of WAL", s.Slot, s.SlotName, held, display.Bytes(s.RetainedBytes))
}

func (s *shownPositions) checkpointLine() string {
	switch {
	case s.Place == "":
		return "none configured"
	case s.LoadError != "":
		return "cannot be read: " + s.LoadError
	case s.Checkpoint == nil:
		return "none yet in " + s.Place
	default:
		return fmt.Sprintf("%s  %s", s.Checkpoint, s.Place)
	}
}

func (p *postgresPositions) set(ctx context.Context, to cdc.Position, yes bool) error {
	in, err := p.inspect(ctx)
	if err != nil {
		return err
	}
	if err := checkpoint.Settable(in.LoadErr, in.Refused, in.Found); err != nil {
		return err
	}
	move, err := in.Preview(to)
	if err != nil {
		return err
	}
	if move.Skips > 0 && !yes {
		return cdc.Usage("give --yes if that is meant", "%s is a move forward over %s of WAL, whose unpublished events would never be published", postgres.DisplayPosition(to), display.Bytes(move.Skips))
	}
	if err := p.Set(ctx, checkpoint.Moved(in.Checkpoint, in.Source, move.To, in.Checkpoint.Progress.Commit <= move.To)); err != nil {
		return err
	}
	if move.Slot && move.Skips > 0 {
		if _, err := p.db.AdvanceSlot(ctx, p.WAL.Slot, move.To); err != nil {
			return err
		}
	}
	p.reportMove(move, in.Checkpoint.Progress.Part)
	return nil
}

func (p *postgresPositions) reportMove(m wal.Move, part cdc.Part) {
	switch {
	case m.Skips > 0:
		p.printf("position is %s now, %s further: unpublished events before it will never be published\n", postgres.DisplayPosition(m.To), display.Bytes(m.Skips))
	case m.Repeats > 0:
		p.printf("position is %s now, %s back: events committed after it are published again\n", postgres.DisplayPosition(m.To), display.Bytes(m.Repeats))
	default:
		p.printf("position is %s already%s\n", postgres.DisplayPosition(m.To), repeatedPart(part))
	}
}

func (p *postgresPositions) reset(ctx context.Context, yes bool) error {
	in, err := p.inspect(ctx)
	if err != nil {
		return err
	}
	if err := checkpoint.Resettable(in.LoadErr); err != nil {
		return err
	}
	if err := checkpoint.Foreign(in.LoadErr); err != nil && !yes {
		return err
	}
	if err := in.Idle(); err != nil && in.Slot != nil {
		return err
	}
	location := p.Location()
	if location == "" {
		p.printf("no checkpoint is configured: the slot alone holds the position\n")
		return nil
	}
	if !in.Found && in.LoadErr == nil {
		p.printf("no checkpoint is stored in %s: the next run continues from slot %s\n", location, p.WAL.Slot)
		return nil
	}
	if stop, ok := errors.AsType[*cdc.StopError](in.Refused); ok && stop.Reason == "slot_ahead" && !yes {
		return cdc.Usage("give --yes if they were published or are not needed", "slot %q is ahead of the checkpoint, so events between them may never have been published", p.WAL.Slot)
	}
	kept, err := p.DropRead(ctx)
	if err != nil {
		return err
	}
	p.reportReset(kept, postgres.DisplayPosition)
	if !kept {
		p.printf("the next run continues from slot %s\n", p.WAL.Slot)
	}
	return nil
}
