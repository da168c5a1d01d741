package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Filtered returns an error if an option of the server leaves a configured table out of the binlog: those of its binlog, and on a replica that
// takes no writes those of its replication. A replica that takes writes may be the primary of these tables. A user without the right to ask gets
// no answer. Rules with wildcards are for people to judge: see [checker.tableRules].
func (v Variables) Filtered(ctx context.Context, db *sql.DB, names []string) error {
	if err := v.binlogFiltered(ctx, db, names); err != nil || !readsOnly(v["read_only"]) {
		return err
	}
	channels, err := filters(ctx, db, replicaStatus(v.Flavor()))
	if err != nil || len(channels) == 0 {
		return err
	}
	for _, name := range names {
		option := ""
		for _, f := range channels {
			if option = cmp.Or(f.database(name, "replicate"), f.table(name)); option == "" {
				break // this channel brings the table
			}
		}
		if option != "" {
			return cdc.ConfigError("replication_filter", "point source.mysql.dsn at the primary, or remove "+option+" and set the replica up anew, which lacks the rows until now",
				"%s of this replica leaves table %s out, so its rows are not in the binlog", option, name)
		}
	}
	return nil
}

func (v Variables) binlogFiltered(ctx context.Context, db *sql.DB, names []string) error {
	query := `SHOW MASTER STATUS`
	switch {
	case v.Flavor() == cdc.MariaDB:
		query = binlogStatus
		if err := notStuck(ctx, db); err != nil {
			return err
		}
	case version(v["version"]) >= version("8.2.0"):
		query = `SHOW BINARY LOG STATUS`
	}
	shown, err := filters(ctx, db, query)
	if err != nil {
		return err
	}
	for _, f := range shown {
		f.caseless = v.Caseless()
		for _, name := range names {
			if option := f.database(name, "binlog"); option != "" {
				return cdc.ConfigError("binlog_filter", "remove it from the server's configuration and restart the server, then publish the rows since it was set with `cdc-relay repair --since TIME`",
					"%s leaves table %s out of the binlog", option, name)
			}
		}
	}
	return nil
}

// filters returns what a SHOW statement says of the server's binlog or of each channel of a replica.
func filters(ctx context.Context, db *sql.DB, query string) (list []filter, err error) {
	err = eachShown(ctx, db, query, func(row map[string]string) {
		f := filter{lists: map[string][]string{}}
		for _, prefix := range []string{"binlog", "replicate"} {
			for _, kind := range []string{"_do_db", "_ignore_db", "_do_table", "_ignore_table", "_wild_do_table", "_wild_ignore_table"} {
				if text := strings.ReplaceAll(row[prefix+kind], " ", ""); text != "" {
					f.lists[prefix+kind] = strings.Split(text, ",")
				}
			}
		}
		list = append(list, f)
	})
	switch code, _ := ErrorNumber(err); {
	case code != 0:
		return nil, nil // the user may not ask
	case err != nil && ctx.Err() == nil:
		return nil, listHangs(err)
	case err != nil:
		return nil, fmt.Errorf("read the server's filters: %w", err)
	}
	return list, nil
}

// filter holds options of the server, by the names of their columns. Rows are filtered by the name of their table.
type filter struct {
	lists    map[string][]string
	caseless bool
}

// database returns the option that leaves the table's database out; "": none. The server does not look at ignore-db where there is a do-db.
func (f *filter) database(name, prefix string) (option string) {
	schema, _, _ := strings.Cut(name, ".")
	has := func(list []string) bool {
		return slices.ContainsFunc(list, func(one string) bool { return one == schema || f.caseless && strings.EqualFold(one, schema) })
	}
	do, ignore := f.lists[prefix+"_do_db"], f.lists[prefix+"_ignore_db"]
	switch {
	case len(do) > 0 && !has(do):
		return prefix + "-do-db=" + strings.Join(do, ",")
	case len(do) == 0 && has(ignore):
		return prefix + "-ignore-db=" + schema
	}
	return ""
}

// table returns the option that names tables and leaves this one out; "": none.
func (f *filter) table(name string) (option string) {
	do := f.lists["replicate_do_table"]
	switch {
	case slices.Contains(do, name):
	case slices.Contains(f.lists["replicate_ignore_table"], name):
		return "replicate-ignore-table=" + name
	case len(do) > 0 && f.lists["replicate_wild_do_table"] == nil:
		return "replicate-do-table=" + strings.Join(do, ",")
	}
	return ""
}

// tableRules names the options of a replica that may leave a table out.
func (c *checker) tableRules(ctx context.Context) {
	channels, err := filters(ctx, c.db.DB, replicaStatus(c.db.Server.Flavor))
	if err != nil {
		c.report.Fail("replica", err)
	}
	for _, f := range channels {
		for _, name := range slices.Sorted(maps.Keys(f.lists)) {
			if strings.HasSuffix(name, "_table") {
				c.report.Warn("replica", "see that it leaves out no table of the relay", "%s=%s: rows of a table that it leaves out are not in the binlog of this replica", strings.ReplaceAll(name, "_", "-"), strings.Join(f.lists[name], ","))
			}
		}
	}
}
