package app

import (
	"context"
	"fmt"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/binlog"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/checkpoint"
	"github.com/cdc-relay/cdc-relay/internal/display"
	"github.com/cdc-relay/cdc-relay/internal/mysql"
)

// mysqlPositions is one position command on MySQL or MariaDB.
type mysqlPositions struct {
	positions
	*MySQL

	db *mysql.Database
}

// at opens the database for fn.
func (m *MySQL) at(ctx context.Context, at positions, fn func(*mysqlPositions) error) error {
	db, err := mysql.OpenDatabase(ctx, m.Binlog.Options)
	if err != nil {
		return err
	}
	defer db.Close()
	return fn(&mysqlPositions{at, m, db})
}

// ShowPositions implements [Database].
func (m *MySQL) ShowPositions(ctx context.Context, at *checkpoint.Places) (answer any, lines [][2]string, err error) {
	err = m.at(ctx, positions{Places: at}, func(p *mysqlPositions) error {
		answer, lines, err = p.show(ctx)
		return err
	})
	return answer, lines, err
}

// SetPosition implements [Database].
func (m *MySQL) SetPosition(ctx context.Context, at *checkpoint.Places, text string, yes bool, printf Printf) error {
	return m.at(ctx, positions{at, printf}, func(p *mysqlPositions) error { return p.set(ctx, text, yes) })
}

// ResetPosition implements [Database].
func (m *MySQL) ResetPosition(ctx context.Context, at *checkpoint.Places, yes bool, printf Printf) error {
	return m.at(ctx, positions{at, printf}, func(p *mysqlPositions) error { return p.reset(ctx, yes) })
}

// shownGTIDs is the answer of position show.
type shownGTIDs struct {
	ID       string `json:"id"`
	Database string `json:"database"`
	Flavor   string `json:"flavor"`
	Version  string `json:"version"`
	Address  string `json:"address"`
	// Executed and Purged are the server's GTID sets; the binlog no longer has the purged transactions.
	Executed string `json:"executed"`
	Purged   string `json:"purged"`
	Place    string `json:"checkpoint_place"`
	// Checkpoint is the stored position, nil if there is none.
	Checkpoint  *string    `json:"checkpoint"`
	LoadError   string     `json:"checkpoint_error,omitempty"`
	LastCommit  string     `json:"last_outbox_commit,omitempty"`
	LastEventID string     `json:"last_event_id,omitempty"`
	Generation  uint64     `json:"generation"`
	Sequence    uint64     `json:"sequence"`
	SavedAt     *time.Time `json:"saved_at,omitempty"`
	Next        *string    `json:"next_start"`
	Refused     string     `json:"next_start_refused,omitempty"`
}

func (p *mysqlPositions) show(ctx context.Context) (any, [][2]string, error) {
	in, err := binlog.Inspect(ctx, p.db, p.Binlog, p.Resume)
	if err != nil {
		return nil, nil, err
	}
	s := p.present(&in)
	lines := p.lines(&s, &in)
	return s, lines, nil
}

func (p *mysqlPositions) present(in *binlog.Inspection) shownGTIDs {
	server := p.db.Server
	s := shownGTIDs{
		ID: in.Source.SystemID, Database: in.Source.Database, Flavor: string(server.Flavor), Version: server.Name, Address: server.Address,
		Executed: string(in.Executed), Purged: string(in.Purged), Place: p.Location(),
	}
	if c := &in.Checkpoint; in.Found {
		position := string(c.Progress.Position)
		s.Checkpoint, s.LastCommit, s.LastEventID = &position, c.Progress.TxID, c.LastEventID
		s.Generation, s.Sequence, s.SavedAt = c.Generation, c.Sequence, &c.SavedAt
	}
	if in.LoadErr != nil && !in.Found {
		s.LoadError = cdc.Explain(in.LoadErr)
	}
	if in.Refused != nil {
		s.Refused = cdc.Explain(in.Refused)
	} else {
		next := string(in.From)
		s.Next = &next
	}
	return s
}

func (p *mysqlPositions) lines(s *shownGTIDs, in *binlog.Inspection) [][2]string {
	lines := [][2]string{{"database", fmt.Sprintf("%s, binlog %s, %s %s at %s", s.Database, s.ID, p.db.Server.Flavor.Title(), s.Version, s.Address)}}
	switch {
	case s.LoadError != "":
		lines = append(lines, [2]string{"checkpoint (C)", "cannot be read: " + s.LoadError})
	case s.Checkpoint == nil:
		lines = append(lines, [2]string{"checkpoint (C)", "none yet in " + s.Place})
	default:
		lines = append(lines, [2]string{"checkpoint (C)", fmt.Sprintf("%s  %s", OrStart(in.Checkpoint.Progress.Position), s.Place)})
		lines = append(lines, savedLines(display.OrNone(s.LastCommit), &in.Checkpoint)...)
	}
	lines = append(lines, [2]string{"server executed", display.OrNone(s.Executed)}, [2]string{"server purged", display.OrNone(s.Purged)})
	if s.Refused != "" {
		return append(lines, [2]string{"next start", "refused: " + s.Refused})
	}
	return append(lines, [2]string{"next start", OrStart(in.From)})
}

func (p *mysqlPositions) set(ctx context.Context, text string, yes bool) error {
	to, err := mysql.ParsePosition(p.db.Server.Flavor, cdc.Position(text))
	if err != nil {
		return cdc.Usage("", "%w", err)
	}
	if err := mysql.Idle(ctx, p.db, p.Binlog.Options); err != nil {
		return err
	}
	in, err := binlog.Inspect(ctx, p.db, p.Binlog, p.Resume)
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
		return cdc.Usage("give --yes if that is meant", "%s skips %s, whose unpublished events would never be published", move.To, transactions(move.Skips))
	}
	next := checkpoint.Moved(in.Checkpoint, in.Source, move.To, move.Repeats == 0)
	next.Progress.Commit = "" // the server may be a restored one, which this position fits
	if err := p.Set(ctx, next); err != nil {
		return err
	}
	p.reportMove(move, in.Found, in.Checkpoint.Progress.Part)
	return nil
}

func (p *mysqlPositions) reportMove(m binlog.Move, found bool, part cdc.Part) {
	p.printf("position is %s now", OrStart(m.To))
	switch {
	case !found:
		p.printf(", the first one stored")
	case m.Skips == 0 && m.Repeats == 0:
		p.printf(", as it was%s", repeatedPart(part))
	}
	if m.Skips > 0 {
		p.printf("; %s skipped, whose unpublished events will never be published", transactions(m.Skips))
	}
	if m.Repeats > 0 {
		p.printf("; %s repeated: their events are published again", transactions(m.Repeats))
	}
	p.printf("\n")
}

func transactions(n uint64) string { return display.Plural(int(n), "transaction") }

func (p *mysqlPositions) reset(ctx context.Context, yes bool) error {
	if err := mysql.Idle(ctx, p.db, p.Binlog.Options); err != nil {
		return err
	}
	_, _, refused := p.Resume(ctx, p.db.Source(p.Binlog.Options))
	if err := checkpoint.Foreign(refused); err != nil && !yes {
		return err
	}
	if err := checkpoint.Resettable(refused); err != nil {
		return err
	}
	if !p.Committed && !p.Found && refused == nil {
		p.printf("no checkpoint is stored in %s\n", p.Location())
		return nil
	}
	kept, err := p.DropRead(ctx)
	if err != nil {
		return err
	}
	p.reportReset(kept, OrStart)
	if !kept {
		p.printf("run refuses to start until `cdc-relay position set POSITION --yes` or `cdc-relay repair --since TIME` gives a position\n")
	}
	return nil
}

// OrStart names the position before the first transaction, which is an empty GTID set.
func OrStart(p cdc.Position) string {
	if p == "" {
		return "the start of the binlog"
	}
	return string(p)
}
