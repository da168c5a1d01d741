package app

import (
	"context"
	"slices"
	"strings"

	"github.com/cdc-relay/cdc-relay/internal/binlog"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/checkpoint"
	"github.com/cdc-relay/cdc-relay/internal/cleanup"
	"github.com/cdc-relay/cdc-relay/internal/mysql"
)

// Settle implements [Database].
func (p *Postgres) Settle(ctx context.Context, at *checkpoint.Places, published string, printf Printf) error {
	if len(p.Conditions()) == 0 {
		return nil
	}
	return p.at(ctx, positions{at, printf}, func(p *postgresPositions) error {
		in, err := p.inspect(ctx)
		if err != nil || in.Idle() != nil || in.LoadErr != nil || in.Refused != nil {
			return err
		}
		c := in.Checkpoint
		if !in.Found {
			c = checkpoint.Moved(c, in.Source, in.From, false)
		}
		return p.settle(ctx, c, p.Conditions(), p.Rows(p.WAL.DSN, p.Marks(published)))
	})
}

// Settle implements [Database].
func (m *MySQL) Settle(ctx context.Context, at *checkpoint.Places, published string, printf Printf) error {
	if len(m.Conditions()) == 0 {
		return nil
	}
	return m.at(ctx, positions{at, printf}, func(p *mysqlPositions) error {
		running := mysql.Idle(ctx, p.db, p.Binlog.Options)
		in, err := binlog.Inspect(ctx, p.db, p.Binlog, p.Resume)
		if err != nil || running != nil || !in.Found || in.LoadErr != nil || in.Refused != nil {
			return err
		}
		return p.settle(ctx, in.Checkpoint, p.Conditions(), p.Rows(p.Binlog.DSN, p.Marks(published)))
	})
}

// settle stores, with the position of c, which conditions are settled: no row that is pending now can be from before the first position.
func (p *positions) settle(ctx context.Context, c cdc.Checkpoint, conditions map[string]string, open cleanup.Tables) error {
	if c.Progress.Part.Rows > 0 { // to store it would repeat them; the relay settles
		return nil
	}
	settled := strings.Fields(c.Settled)
	load := func(context.Context) (cdc.Checkpoint, bool, error) { return c, true, nil }
	err := open.Each(ctx, load, func(t cleanup.Rows) error {
		condition := conditions[t.Name()]
		if slices.Contains(settled, condition) {
			return nil
		}
		if err := t.Verify(ctx); err != nil { // check reports it, too
			p.printf("write_back: %s\n", cdc.Explain(err))
			return nil
		}
		pending, _, err := t.Due(ctx, 1)
		if err != nil {
			return err
		}
		if len(pending) > 0 {
			p.printf("table %s: has rows that are pending, that of event %s among them: nothing tells whether they were published, so write_back leaves them as they are until somebody sets their status; before the first run setup --backfill --where publishes them\n", t.Name(), pending[0].ID)
			return nil
		}
		settled = append(settled, condition)
		return nil
	})
	if err != nil {
		return err
	}
	if text := strings.Join(settled, " "); text != c.Settled {
		c.Settled = text
		return p.Set(ctx, c)
	}
	return nil
}
