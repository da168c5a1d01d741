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
		return "", cdc.Usage("", "--table: %w", err)
	}
	f := draft.File{MySQL: at.MySQL, Database: at.Database, DSN: at.Shown, Password: at.Password}
	if relay, err := config.ReadConnection(o.Relay); o.Relay != "" && err == nil && relay.MySQL == at.MySQL && relay.Database == at.Database {
		f.Variable, f.Password = o.Variable, false
	}
	db, closeDB, err := openCandidates(ctx, at)
	if err != nil {
		return "", err
	}
	defer closeDB()
	for _, name := range names {
		schema, facts, err := db.Candidate(ctx, name.String())
		if err != nil {
			return "", err
		}
		table, err := draft.Of(name.String(), schema, facts)
		if err != nil {
			return "", err
		}
		table.Generated = facts.Generated
		f.Tables = append(f.Tables, table)
	}
	return f.YAML(), nil
}

// candidates is a database in which tables are looked at.
type candidates interface {
	Candidate(ctx context.Context, name string) (*cdc.Table, *cdc.Facts, error)
}

func openCandidates(ctx context.Context, at config.Connection) (db candidates, closeDB func(), err error) {
	dsn := func(context.Context) (string, error) { return at.DSN, nil }
	if at.MySQL {
		db, err := mysql.OpenDatabase(ctx, mysql.Options{DSN: dsn})
		return db, db.Close, err
	}
	own, err := postgres.OpenDatabase(ctx, postgres.Options{DSN: dsn})
	return own, func() { own.Close(context.WithoutCancel(ctx)) }, err
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
