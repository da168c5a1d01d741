package app

import (
	"context"
	"fmt"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/display"
	"github.com/cdc-relay/cdc-relay/internal/postgres"
	"github.com/cdc-relay/cdc-relay/internal/wal"
)

// postgresPositions is what differs on PostgreSQL.
type postgresPositions struct {
	*Postgres

	db *postgres.Database
	in wal.Inspection
}

func (p *Postgres) positioned(ctx context.Context) (positioned, error) {
	db, err := postgres.OpenDatabase(ctx, p.WAL.Options)
	return &postgresPositions{Postgres: p, db: db}, err
}

func (p *postgresPositions) close(ctx context.Context) { p.db.Close(ctx) }

func (p *postgresPositions) parse(text string) (cdc.Position, error) {
	switch {
	case text == current || p.in.Slot == nil: // without a slot no position can be set
		return p.in.WALEnd, nil
	case text == earliest:
		text = p.in.Slot.ConfirmedFlushLSN
	}
	to, err := postgres.ParsePosition(cdc.Position(text))
	if err != nil || to == "" {
		return "", cdc.Usage("write it as PostgreSQL prints it (16/B374D848) or as 16 hex digits", "%q is not an LSN", text)
	}
	return to, nil
}

func (p *postgresPositions) inspect(ctx context.Context, load cdc.Resumer) (in *cdc.Inspection, err error) {
	p.in, err = wal.Inspect(ctx, p.db, p.WAL, load)
	return &p.in.Inspection, err
}

func (p *postgresPositions) idle(context.Context) error { return p.in.Idle() }

func (p *postgresPositions) preview(to cdc.Position) (cdc.Move, error) { return p.in.Preview(to) }

func (p *postgresPositions) moveSlot(ctx context.Context, to cdc.Position) error {
	_, err := p.db.AdvanceSlot(ctx, p.WAL.Slot, to)
	return err
}

func (p *postgresPositions) named(at cdc.Position) string { return p.Display(at) }

func (p *postgresPositions) amount(n uint64) string { return display.Bytes(int64(n)) + " of WAL" }

func (p *postgresPositions) atReset() string { return "the next run continues from slot " + p.WAL.Slot }

// shownLSNs is the answer of position show, with positions as position set takes them; "" is none.
type shownLSNs struct {
	SystemID string `json:"system_id"`
	Database string `json:"database"`
	Timeline uint32 `json:"timeline"`
	SlotName string `json:"slot_name"`
	// Slot is S.
	Slot          string `json:"slot,omitempty"`
	SlotPID       int    `json:"slot_active_pid,omitempty"`
	SlotStatus    string `json:"slot_status,omitempty"`
	RetainedBytes int64  `json:"slot_retained_bytes"`
	WALEnd        string `json:"wal_end"`
	Place         string `json:"checkpoint_place,omitempty"`
	// Checkpoint is C.
	Checkpoint string `json:"checkpoint,omitempty"`
	LoadError  string `json:"checkpoint_error,omitempty"`
	LastCommit string `json:"last_outbox_commit,omitempty"`
	TxID       string `json:"last_outbox_txid,omitempty"`

	shownSaved

	Next    string `json:"next_start,omitempty"`
	Refused string `json:"next_start_refused,omitempty"`
}

func (p *postgresPositions) show(d *described) shown {
	in := &p.in
	s := shownLSNs{
		SystemID: in.Source.SystemID, Database: in.Source.Database, Timeline: in.Source.Timeline, SlotName: in.Source.Slot,
		WALEnd: p.Display(in.WALEnd), Place: d.place, LoadError: d.loadError, shownSaved: d.saved, Refused: d.refused,
	}
	if slot := in.Slot; slot != nil {
		s.Slot, s.SlotPID, s.SlotStatus, s.RetainedBytes = p.Display(cdc.Position(slot.ConfirmedFlushLSN)), slot.ActivePID, slot.WALStatus, slot.Retained
	}
	if c := d.found; c != nil {
		s.Checkpoint, s.LastCommit, s.TxID = p.Display(c.Progress.Position), p.Display(c.Progress.Commit), c.Progress.TxID
	}
	if d.refused == "" {
		s.Next = p.Display(in.From)
	}
	return shown{
		answer: s,
		head:   [][2]string{{"database", fmt.Sprintf("%s, system %s, timeline %d", s.Database, s.SystemID, s.Timeline)}, {"slot (S)", s.slotLine()}},
		at:     display.OrNone(s.Checkpoint), commit: display.OrNone(s.LastCommit) + display.Suffix("  xid ", s.TxID), next: display.OrNone(s.Next),
		tail: [][2]string{{"end of WAL", display.OrNone(s.WALEnd)}},
	}
}

func (s *shownLSNs) slotLine() string {
	if s.Slot == "" {
		return s.SlotName + " does not exist"
	}
	held := "not in use"
	if s.SlotPID != 0 {
		held = fmt.Sprintf("in use by PID %d", s.SlotPID)
	}
	return fmt.Sprintf("%s  %s, %s, keeps %s of WAL", s.Slot, s.SlotName, held, display.Bytes(s.RetainedBytes))
}
