package binlog

import (
	"context"
	"errors"
	"slices"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/mysql"
)

// compareWithCatalog reads the table from the catalog if rows of s lack a column that is needed. So the router knows whether the table
// still lacks it, which stops the relay, or has it by now. Once the table is altered its table maps have another id.
func (ss *session) compareWithCatalog(ctx context.Context, s *schema, id uint64) error {
	if s.compared && (s.table.Now == nil || s.id == id) {
		return nil
	}
	verify, rows := ss.src.opts.Verify, *s.table
	rows.Now = nil
	if s.compared = verify == nil || cdc.ReasonOf(verify(&rows)) != cdc.MissingColumn; s.compared {
		return nil
	}
	now, err := ss.src.tableNow(ctx, s.table.String())
	if stop, final := errors.AsType[*cdc.StopError](err); final {
		return stop
	}
	if err != nil {
		return cdc.Fixable("see why the database does not answer", "read the columns of %s: %w", s.table, err)
	}
	s.compared, s.id = true, id
	if now != nil && (s.table.Now == nil || !slices.Equal(s.table.Now.Columns, now.Columns)) {
		rows.Now = now
		s.table = &rows
	}
	return nil
}

// tableNow reads a table by its configured name; nil: it does not exist.
func (s *Source) tableNow(ctx context.Context, name string) (*cdc.Table, error) {
	db, _, err := mysql.Connect(ctx, &s.opts.Options)
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }()
	tables, err := mysql.ReadTables(ctx, db, []string{name}, s.caseless)
	return tables[name], err
}
