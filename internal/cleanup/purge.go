package cleanup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Rows are the rows of a table without partitions.
type Rows interface {
	Name() string
	// Verify returns an error if old rows cannot be deleted safely and by their key, or by this role.
	Verify(ctx context.Context) error
	// Count counts the rows older than age, up to a limit.
	Count(ctx context.Context, age time.Duration, limit int) (int, error)
	// Keyless returns an error if rows older than age have no key, by which they could be deleted. The other methods leave them out.
	Keyless(ctx context.Context, age time.Duration) error
	// Old returns the keys of committed rows older than age, at most limit, and a position of the WAL or binlog behind the
	// transactions that wrote them: it is read after the rows.
	Old(ctx context.Context, age time.Duration, limit int) (keys []cdc.RowKey, behind cdc.Position, err error)
	// OldAfter is Old in the order of keys, behind a key; nil: from the first one.
	OldAfter(ctx context.Context, age time.Duration, limit int, after any) (keys []cdc.RowKey, behind cdc.Position, err error)
	// Passed reports whether the relay has saved a position that is behind a position or equal to it.
	Passed(ctx context.Context, behind cdc.Position) (bool, error)
	// Delete deletes the rows of these keys that are older than age, in one transaction, and returns how many. An error that wraps
	// [cdc.ErrHeld] says that the database keeps one or more of them.
	Delete(ctx context.Context, keys []cdc.RowKey, age time.Duration) (n int64, err error)
}

// RowTables connects to the database and returns its tables. The caller closes the connection.
type RowTables func(ctx context.Context) (tables []Rows, closeAll func(), err error)

// Each connects and calls fn with each table, until one returns an error.
func (open RowTables) Each(ctx context.Context, fn func(Rows) error) error {
	tables, closeAll, err := open(ctx)
	if err != nil {
		return err
	}
	defer closeAll()
	for _, t := range tables {
		if err := fn(t); err != nil {
			return err
		}
	}
	return nil
}

// PurgeOptions are how old rows are deleted.
type PurgeOptions struct {
	// OlderThan is the age by the table's time column.
	OlderThan time.Duration
	// Batch is how many rows are deleted in one transaction, Pause the time between two.
	Batch int
	Pause time.Duration
	// Every is the time between two passes.
	Every time.Duration
	// Patience is how long a pass waits for the relay to have published and saved what it found; 0: as long as it takes.
	Patience time.Duration
}

// Purger deletes old rows once they are published and saved. It stores nothing: a crash between two steps needs no repair.
type Purger struct {
	opts    PurgeOptions
	open    RowTables
	log     *slog.Logger
	deleted *prometheus.CounterVec
	errors  prometheus.Counter
}

// NewPurger returns a Purger and registers its metrics.
func NewPurger(opts PurgeOptions, open RowTables, log *slog.Logger, reg prometheus.Registerer) *Purger {
	p := &Purger{
		opts: opts, open: open, log: log,
		deleted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "cdc_relay", Name: "rows_deleted_total", Help: "Rows deleted from outbox tables because of retention.delete.",
		}, []string{"table"}),
		errors: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "cdc_relay", Name: "row_deletion_errors_total", Help: "Passes over old rows that left something undone.",
		}),
	}
	reg.MustRegister(p.deleted, p.errors)
	return p
}

// Run deletes old rows at once and then at every interval, until ctx ends. What cannot be done is logged, and done later: it
// never ends the relay.
func (p *Purger) Run(ctx context.Context) {
	for {
		if err := p.Purge(ctx); err != nil && ctx.Err() == nil {
			p.log.Warn("old rows not deleted, trying again later", "error", err, "pause", p.opts.Every.String())
			p.errors.Inc()
		}
		if sleep(ctx, p.opts.Every) != nil {
			return
		}
	}
}

// Purge deletes until no row is old.
func (p *Purger) Purge(ctx context.Context) error {
	tables, closeAll, err := p.open(ctx)
	if err != nil {
		return err
	}
	defer closeAll()
	var errs []error
	for _, t := range tables {
		n, err := p.table(ctx, t)
		if n > 0 {
			p.log.Info("old rows deleted", "table", t.Name(), "rows", n)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// rounds is how many batches are read at once, so that the relay's position is waited for less often.
const rounds = 50

func (p *Purger) table(ctx context.Context, t Rows) (total int64, err error) {
	if err := t.Verify(ctx); err != nil {
		return 0, err
	}
	keyless := t.Keyless(ctx, p.opts.OlderThan)
	total, held, err := p.deleteOld(ctx, t)
	return total, errors.Join(keyless, held.error(t), err)
}

// deleteOld deletes old rows until none is left but those that the database keeps. It reads them in the order in which the database
// finds them fastest. Once some are kept, the next read could return the same rows again, so all are read in the order of keys, each once.
func (p *Purger) deleteOld(ctx context.Context, t Rows) (total int64, kept held, err error) {
	var after any
	ordered := false
	for limit := rounds * p.opts.Batch; ; {
		var keys []cdc.RowKey
		var behind cdc.Position
		if ordered {
			keys, behind, err = t.OldAfter(ctx, p.opts.OlderThan, limit, after)
		} else {
			keys, behind, err = t.Old(ctx, p.opts.OlderThan, limit)
		}
		if err != nil || len(keys) == 0 {
			return total, kept, err
		}
		n, err := p.deleteRelayed(ctx, t, keys, behind, &kept)
		total += n
		switch {
		case err != nil:
			return total, kept, err
		case !ordered && kept.rows > 0:
			ordered, kept = true, held{}
		case len(keys) < limit, !ordered && n == 0:
			return total, kept, nil
		case ordered:
			after = keys[len(keys)-1].Value
		}
	}
}

// deleteRelayed deletes rows once the relay has saved a position behind them.
func (p *Purger) deleteRelayed(ctx context.Context, t Rows, keys []cdc.RowKey, behind cdc.Position, held *held) (total int64, err error) {
	if err := p.await(ctx, t, behind); err != nil {
		return 0, err
	}
	return p.delete(ctx, t, keys, held)
}

// shrink divides the size of a batch in which the database keeps a row. The size doubles with each batch that goes, so that each row is
// tried a few times at most, however many are kept.
const shrink = 4

func (p *Purger) delete(ctx context.Context, t Rows, keys []cdc.RowKey, held *held) (total int64, err error) {
	tried := 0
	for size := p.opts.Batch; len(keys) > 0; {
		batch := keys[:min(size, len(keys))]
		n, err := t.Delete(ctx, batch, p.opts.OlderThan)
		total += n
		p.deleted.WithLabelValues(t.Name()).Add(float64(n))
		switch {
		case err == nil:
			size = min(2*size, p.opts.Batch)
		case !errors.Is(err, cdc.ErrHeld):
			return total, err
		case len(batch) == 1:
			held.add(batch[0], err)
		default:
			size = max(1, len(batch)/shrink)
			continue
		}
		keys, tried = keys[len(batch):], tried+len(batch)
		if tried < p.opts.Batch && len(keys) > 0 {
			continue
		}
		if err := sleep(ctx, p.opts.Pause); err != nil {
			return total, err
		}
		tried = 0
	}
	return total, nil
}

// held are the rows of a pass that the database keeps.
type held struct {
	rows int
	id   string // of the first
	why  error  // it is kept
}

func (h *held) add(key cdc.RowKey, why error) {
	if h.rows++; h.rows == 1 {
		h.id, h.why = key.ID, why
	}
}

func (h *held) error(t Rows) error {
	if h.rows == 0 {
		return nil
	}
	return fmt.Errorf("table %s: old rows are not deleted: %d, among them that of event %s: %w", t.Name(), h.rows, h.id, h.why)
}

const (
	// pollPassed is how often the saved position is read.
	pollPassed = 500 * time.Millisecond
	// patience is how long a pass waits for the position until it says so.
	patience = time.Minute
)

// await waits until the relay has saved a position behind the rows that were found.
func (p *Purger) await(ctx context.Context, t Rows, behind cdc.Position) error {
	warned := false
	for since := time.Now(); ; {
		passed, err := t.Passed(ctx, behind)
		waited := time.Since(since)
		switch {
		case err != nil || passed:
			return err
		case p.opts.Patience > 0 && waited >= p.opts.Patience:
			return errBehind(t)
		case waited >= patience && !warned:
			p.log.Warn("old rows not deleted yet", "error", errBehind(t))
			warned = true
		}
		if err := sleep(ctx, pollPassed); err != nil {
			return err
		}
	}
}

func errBehind(t Rows) error {
	return &cdc.FixableError{
		Cause: fmt.Errorf("old rows of %s may hold events whose position is not saved yet", t.Name()),
		Fix:   "start the relay, or find out why it lags; if it always lags that much, make retention.delete.older_than longer",
	}
}
