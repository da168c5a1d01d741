package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/wal"
)

func newPositionShowCommand(a *app) *cobra.Command {
	var (
		p      positions
		output outputFlag
	)
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show the positions of slot and checkpoint and where a run would go on",
		Long: `Show where slot and checkpoint stand, each as PostgreSQL prints it and as the 16 hex digits that are stored,
and where a run would go on, or why it would not. It reads only, and may be used while a relay runs.`,
		Example: "  cdc-relay position show\n  cdc-relay position show -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.with(cmd.Context(), a, func(ctx context.Context) error { return p.show(ctx, output.json()) })
		},
	}
	output.add(cmd)
	return cmd
}

// shownPosition is a position in both forms.
type shownPosition struct {
	LSN string `json:"lsn"`
	Hex string `json:"hex"`
}

func shown(p cdc.Position) *shownPosition {
	parsed, err := wal.ParsePosition(p)
	if err != nil || parsed == "" {
		return nil
	}
	return &shownPosition{LSN: wal.DisplayPosition(parsed), Hex: string(parsed)}
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
	// Slot is S; nil: there is none.
	Slot          *shownPosition `json:"slot"`
	SlotPID       int            `json:"slot_active_pid,omitempty"`
	SlotStatus    string         `json:"slot_status,omitempty"`
	RetainedBytes int64          `json:"slot_retained_bytes"`
	WALEnd        *shownPosition `json:"wal_end"`
	Place         string         `json:"checkpoint_place,omitempty"`
	// Checkpoint is C; nil: there is none.
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

func (p *positions) show(ctx context.Context, asJSON bool) error {
	in, err := p.inspect(ctx)
	if err != nil {
		return err
	}
	s := present(in, storePlace(p.config))
	if asJSON {
		return printJSON(p.app.stdout, s)
	}
	for _, line := range s.lines() {
		p.app.printf("%-20s %s\n", line[0], line[1])
	}
	return nil
}

func present(in wal.Inspection, place string) shownPositions {
	s := shownPositions{
		SystemID: in.Source.SystemID, Database: in.Source.Database, Timeline: in.Source.Timeline, SlotName: in.Source.Slot,
		WALEnd: shown(in.WALEnd), Place: place, Next: shown(in.From),
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
	if in.LoadErr != nil {
		s.LoadError = in.LoadErr.Error()
	}
	if in.Refused != nil {
		s.Next, s.Refused = nil, in.Refused.Error()
	}
	return s
}

func (s *shownPositions) lines() [][2]string {
	lines := [][2]string{
		{"database", fmt.Sprintf("%s, system %s, timeline %d", s.Database, s.SystemID, s.Timeline)},
		{"slot (S)", s.slotLine()},
		{"checkpoint (C)", s.checkpointLine()},
	}
	if s.Checkpoint != nil {
		lines = append(lines,
			[2]string{"last outbox commit", s.LastCommit.String() + suffix("  xid ", s.TxID)},
			[2]string{"last event", orNone(s.LastEventID)},
			[2]string{"saved", fmt.Sprintf("%s, generation %d, save %d", s.SavedAt.Format(time.RFC3339), s.Generation, s.Sequence)})
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
	held := "read by nobody"
	if s.SlotPID != 0 {
		held = fmt.Sprintf("read by PID %d", s.SlotPID)
	}
	return fmt.Sprintf("%s  %s, %s, keeps %s of WAL", s.Slot, s.SlotName, held, byteSize(s.RetainedBytes))
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

func suffix(before, s string) string {
	if s == "" {
		return ""
	}
	return before + s
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
