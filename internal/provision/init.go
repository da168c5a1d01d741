package provision

import (
	"context"
	"slices"

	"github.com/cdc-relay/cdc-relay/internal/app"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/draft"
	"github.com/cdc-relay/cdc-relay/internal/mysql"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/postgres"
)

// InitOptions say what [Init] looks at.
type InitOptions struct {
	// DSN is a connection string for any of the databases.
	DSN string
	// Variable is the environment's with the relay's own connection string, and Relay what it holds; "" for nothing.
	Variable, Relay string
	// Tables are the names as tables[].name has them.
	Tables []string
}

// Init reads the columns of tables and returns a configuration for them, which holds no secret. It names Variable if that leads to the same
// database, and otherwise has DSN without its password. Nothing is changed.
func Init(ctx context.Context, o InitOptions) (string, error) {
	at, err := config.ReadConnection(o.DSN)
	if err != nil {
		name := "the connection string of the owner (--owner-dsn or " + app.EnvOwner + ")"
		if o.DSN == o.Relay {
			name = o.Variable
		}
		return "", cdc.Usage("", "%s %w", name, err)
	}
	names, err := tableNames(o.Tables, at)
	if err != nil {
		return "", cdc.Usage("", "--from: %w", err)
	}
	f := draft.File{MySQL: at.MySQL, DSN: at.Shown, Password: at.Password}
	if relay, err := config.ReadConnection(o.Relay); o.Relay != "" && err == nil && relay.MySQL == at.MySQL && relay.Database == at.Database {
		f.Variable, f.Password = o.Variable, false
	}
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
		if tables[i], err = draft.Of(name.Configured(`"`), c.Schema, &c.Facts); err != nil {
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
		schema, facts, err := db.Candidate(ctx, name.String())
		if err != nil {
			return nil, err
		}
		if tables[i], err = draft.Of(name.Configured("`"), schema, facts); err != nil {
			return nil, err
		}
	}
	return tables, nil
}

func fixed(dsn string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return dsn, nil }
}
