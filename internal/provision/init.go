package provision

import (
	"cmp"
	"context"
	"slices"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/draft"
	"github.com/cdc-relay/cdc-relay/internal/mysql"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/postgres"
	"github.com/cdc-relay/cdc-relay/internal/source"
)

// InitOptions say what [Init] looks at.
type InitOptions struct {
	// DSN is a connection string for any of the databases.
	DSN string
	// Variable is the environment's that holds it and that the configuration is to name; "": it is written without its password.
	Variable string
	// Tables are the names as tables[].name has them.
	Tables []string
}

// Init reads the columns of tables and returns a configuration for them, which holds no secret. Nothing is changed.
func Init(ctx context.Context, o InitOptions) (string, error) {
	at, err := config.ReadConnection(o.DSN)
	if err != nil {
		name := cmp.Or(o.Variable, "the connection string of the owner (--owner-dsn or "+source.EnvOwner+")")
		return "", cdc.Usage("", "%s %w", name, err)
	}
	names, err := tableNames(o.Tables, at)
	if err != nil {
		return "", cdc.Usage("", "--from: %w", err)
	}
	f := draft.File{MySQL: at.MySQL, DSN: at.Shown, Variable: o.Variable, Password: at.Password && o.Variable == ""}
	look := lookPostgres
	if at.MySQL {
		look = lookMySQL
	}
	f.Tables, err = look(ctx, at.DSN, names)
	return f.YAML(), err
}

// tableNames parses the names, and leaves out those that were given before.
func tableNames(given []string, at config.Connection) ([]outbox.Name, error) {
	var names []outbox.Name
	for _, text := range given {
		name, err := outbox.ParseName(text)
		if at.MySQL {
			name, err = outbox.ParseMySQLName(text, at.Database)
		}
		if err != nil {
			return nil, err
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, nil
}

func lookPostgres(ctx context.Context, dsn string, names []outbox.Name) ([]draft.Table, error) {
	db, err := postgres.OpenDatabase(ctx, postgres.Options{DSN: fixed(dsn)})
	if err != nil {
		return nil, err
	}
	defer db.Close(context.WithoutCancel(ctx))
	tables := make([]draft.Table, len(names))
	for i, name := range names {
		c, err := db.Candidate(ctx, name.String())
		if err != nil {
			return nil, err
		}
		if tables[i], err = draft.Of(name.Configured(`"`), c.Schema); err != nil {
			return nil, err
		}
		tables[i].Generated = c.Generated
	}
	return tables, nil
}

func lookMySQL(ctx context.Context, dsn string, names []outbox.Name) ([]draft.Table, error) {
	db, err := mysql.OpenDatabase(ctx, mysql.Options{DSN: fixed(dsn)})
	if err != nil {
		return nil, err
	}
	defer db.Close()
	tables := make([]draft.Table, len(names))
	for i, name := range names {
		schema, err := db.Candidate(ctx, name.String())
		if err != nil {
			return nil, err
		}
		if tables[i], err = draft.Of(name.Configured("`"), schema); err != nil {
			return nil, err
		}
	}
	return tables, nil
}

func fixed(dsn string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return dsn, nil }
}
