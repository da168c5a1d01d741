package wal

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

func (ss *session) relation(ctx context.Context, m []byte) error {
	id, r, err := decodeRelation(m, ss.src.types, !ss.text)
	if err != nil {
		return err
	}
	// Whatever its name was when the row was written: for a partitioned table the server does not send it again after a rename.
	// Under the configured name another table may have been written to, which was renamed or dropped since.
	if name, ours := ss.src.oids[id]; ours {
		r.table.Schema, r.table.Name, _ = strings.Cut(name, ".")
	}
	r.tracked = ss.src.opts.tracked(r.table.String())
	label := otherTable
	if r.tracked {
		label = r.table.String()
		r.received = ss.src.metrics.received.WithLabelValues(label)
		if err := ss.resolveTypes(ctx, r); err != nil {
			return err
		}
	}
	r.filtered = ss.src.metrics.filtered.WithLabelValues(label)
	// The server repeats a Relation whenever its cache was invalidated: keep the Table, and with it all
	// that was derived from it, unless something changed.
	if old := ss.relations[id]; old != nil && sameTable(old.table, r.table) {
		old.compared = old.compared && old.table.Now == nil // it may have been altered once more
		return nil
	}
	ss.relations[id] = r
	return nil
}

// domain notes the type behind a domain as it was when the rows were written. The message stands before that of their table, and has the
// name of the type behind, without a schema if it is the server's own.
func (ss *session) domain(m []byte) error {
	var t pglogrepl.TypeMessage
	err := decoded(&t, m)
	if err == nil && t.Namespace == "" {
		ss.domains[t.DataType] = t.Name
	}
	return err
}

// resolveTypes asks the catalog for types that r has and the table did not have when the relay connected.
func (ss *session) resolveTypes(ctx context.Context, r *relation) error {
	types := ss.src.types
	for i, oid := range r.types {
		column := &r.table.Columns[i]
		if !types.Knows(oid) {
			err := ss.askCatalog(ctx, func(ctx context.Context, conn *pgx.Conn) error { return types.Read(ctx, conn, oid, ss.domains[oid]) })
			if err != nil {
				return err
			}
			*column = types.Column(column.Name, oid, !ss.text)
		}
		if !ss.text && !types.HasBinaryForm(oid) && ss.src.opts.Needed(r.table.String(), column.Name) {
			ss.src.text = true
			return fmt.Errorf("%w: type %d of column %s of %s", errNeedText, oid, column.Name, r.table)
		}
	}
	return nil
}

// otherTable is the table label of all tables that are not ours: partitions among them come and go.
const otherTable = "other"

func sameTable(a, b *cdc.Table) bool {
	return a.Schema == b.Schema && a.Name == b.Name && slices.Equal(a.Columns, b.Columns)
}
