package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// verifyMarks returns an error if rows cannot be marked.
func (r *Rows) verifyMarks(ctx context.Context, d *described) error {
	switch {
	case len(d.missing) > 0:
		return cdc.ConfigError(cdc.BadWriteBack, "correct write_back", "column %s, which write_back sets, does not exist in table %s, or is generated", d.missing[0], r.Table)
	case !d.reads || len(d.lacks) > 0:
		return cdc.Fixable(fmt.Sprintf("run `cdc-relay setup` with the owner's connection string, or GRANT SELECT, UPDATE ON %s TO %s", r.SQL, pgx.Identifier{r.db.Server.Role}.Sanitize()),
			"role %q %w mark rows of %s", r.db.Server.Role, cdc.ErrMayNot, r.Table)
	}
	// The condition must be one without brackets around it, too: with them others could be added.
	if _, err := r.db.Conn.Prepare(ctx, "", "SELECT FROM ONLY "+r.SQL+" WHERE "+r.Pending+"\nLIMIT 0"); err != nil {
		return r.unfit(err)
	}
	for _, set := range [][]cdc.Assignment{r.Set, r.OnDeadLetter} {
		if len(set) == 0 {
			continue
		}
		text, values := r.update(set)
		if _, err := r.db.Conn.Exec(ctx, "EXPLAIN "+text, append([]any{[]string{}}, values...)...); err != nil { // also a text that is none of its type
			return r.unfit(err)
		}
	}
	return nil
}

// unfit says that PostgreSQL refuses the condition, or what is set.
func (r *Rows) unfit(err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code == stateInsufficientPrivilege || !slices.Contains([]string{"22", "42", "0A"}, pg.Code[:2]) {
		return r.failed("prepare the marks", err)
	}
	return cdc.UnfitWriteBack(r.Table, "PostgreSQL", pg.Message)
}

// update is the statement that marks the rows of the keys $1.
func (r *Rows) update(set []cdc.Assignment) (text string, values []any) {
	var list []string
	for _, a := range set {
		to := "(" + a.SQL + "\n)"
		if a.SQL == "" {
			values = append(values, a.Value)
			to = fmt.Sprintf("$%d", len(values)+1)
		}
		list = append(list, pgx.Identifier{a.Column}.Sanitize()+" = "+to)
	}
	return "UPDATE ONLY " + r.SQL + " SET " + strings.Join(list, ", ") + r.these(), values
}
