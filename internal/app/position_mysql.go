package app

import (
	"context"
	"fmt"

	"github.com/cdc-relay/cdc-relay/internal/binlog"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/display"
	"github.com/cdc-relay/cdc-relay/internal/mysql"
)

// mysqlPositions is what differs on MySQL and MariaDB.
type mysqlPositions struct {
	*MySQL

	db *mysql.Database
	in binlog.Inspection
}

func (m *MySQL) positioned(ctx context.Context) (positioned, error) {
	db, err := mysql.OpenDatabase(ctx, m.Binlog.Options)
	return &mysqlPositions{MySQL: m, db: db}, err
}

func (p *mysqlPositions) close(context.Context) { p.db.Close() }

func (p *mysqlPositions) parse(text string) (cdc.Position, error) {
	switch text {
	case earliest:
		return p.in.Purged, nil
	case current:
		return p.in.Executed, nil
	}
	to, err := mysql.ParsePosition(p.db.Server.Flavor, cdc.Position(text))
	if err != nil {
		return "", cdc.Usage("", "%w", err)
	}
	return to, nil
}

func (p *mysqlPositions) inspect(ctx context.Context, load cdc.Resumer) (in *cdc.Inspection, err error) {
	p.in, err = binlog.Inspect(ctx, p.db, p.Binlog, load)
	return &p.in.Inspection, err
}

func (p *mysqlPositions) idle(ctx context.Context) error {
	return mysql.Idle(ctx, p.db, p.Binlog.Options)
}

func (p *mysqlPositions) preview(to cdc.Position) (cdc.Move, error) { return p.in.Preview(to) }

func (p *mysqlPositions) moveSlot(context.Context, cdc.Position) error { return nil }

func (p *mysqlPositions) named(at cdc.Position) string { return OrStart(at) }

func (p *mysqlPositions) amount(n uint64) string { return display.Plural(int(n), "transaction") }

func (p *mysqlPositions) atReset() string {
	return "run refuses to start until `cdc-relay position set POSITION` or `cdc-relay repair --since TIME` gives a position"
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
	Checkpoint *string `json:"checkpoint"`
	LoadError  string  `json:"checkpoint_error,omitempty"`
	LastCommit string  `json:"last_outbox_commit,omitempty"`

	shownSaved

	Next    *string `json:"next_start"`
	Refused string  `json:"next_start_refused,omitempty"`
}

func (p *mysqlPositions) show(d *described) shown {
	in, server := &p.in, p.db.Server
	s := shownGTIDs{
		ID: in.Source.SystemID, Database: in.Source.Database, Flavor: string(server.Flavor), Version: server.Name, Address: server.Address,
		Executed: string(in.Executed), Purged: string(in.Purged), Place: d.place, LoadError: d.loadError, shownSaved: d.saved, Refused: d.refused,
	}
	if c := d.found; c != nil {
		position := string(c.Progress.Position)
		s.Checkpoint, s.LastCommit = &position, c.Progress.TxID
	}
	if d.refused == "" {
		next := string(in.From)
		s.Next = &next
	}
	return shown{
		answer: s,
		head:   [][2]string{{"database", fmt.Sprintf("%s, binlog %s, %s %s at %s", s.Database, s.ID, server.Flavor.Title(), s.Version, s.Address)}},
		at:     OrStart(in.Checkpoint.Progress.Position), commit: display.OrNone(s.LastCommit), next: OrStart(in.From),
		tail: [][2]string{{"server executed", display.OrNone(s.Executed)}, {"server purged", display.OrNone(s.Purged)}},
	}
}
