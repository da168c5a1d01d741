package main

import (
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
)

// outboxTable is a configured table.
type outboxTable struct {
	name outbox.Name
	// foreign is a table of other software's (it has a columns mapping), which is never made or dropped.
	foreign bool
}

func outboxTables(c *config.Config) ([]outboxTable, error) {
	tables := make([]outboxTable, len(c.Tables))
	for i, t := range c.Tables {
		name, err := outbox.ParseName(t.Name)
		if err != nil {
			return nil, cdc.Stop(cdc.ClassConfig, "config", fmt.Errorf("tables[%d].name: %w", i, err))
		}
		tables[i] = outboxTable{name: name, foreign: t.Columns != nil}
	}
	return tables, nil
}

// ownerFlag is --owner-dsn: making tables and publications takes other rights than replicating.
type ownerFlag struct{ value string }

const (
	envOwner  = "CDC_RELAY_OWNER_DSN"
	ownerHelp = `Making the table and the publication takes the table's owner and CREATE on the database; the relay's own
role should have neither. Name the owner's connection with --owner-dsn or in ` + envOwner + `.`
)

func (f *ownerFlag) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.value, "owner-dsn", "", "`connection` of the table's owner, also "+envOwner+" (default source.postgres.dsn)")
}

// dsn returns the owner's connection string: the flag's, the environment's, or the relay's own.
func (f *ownerFlag) dsn(a *app, c *config.Config) func() (string, error) {
	if f.given(a) == "" {
		return c.Source.Postgres.ConnString
	}
	return func() (string, error) { return f.given(a), nil }
}

func (f *ownerFlag) given(a *app) string {
	if f.value != "" {
		return f.value
	}
	value, _ := a.env(envOwner)
	return value
}

// roleName is the role that the relay connects as.
func roleName(c *config.Config) (string, error) {
	dsn, err := c.Source.Postgres.ConnString()
	if err != nil {
		return "", cdc.Stop(cdc.ClassConfig, "config", err)
	}
	parsed, err := pgconn.ParseConfig(dsn)
	if err != nil { // config has parsed it before; only a changed secret file gets here
		return "", cdc.Stop(cdc.ClassConfig, "config", fmt.Errorf("source.postgres.dsn is not a PostgreSQL connection string or URL"))
	}
	return parsed.User, nil
}

// literalTopics are the topics that routes name outright, without repeats.
func literalTopics(c *config.Config) []string {
	var topics []string
	seen := map[string]bool{}
	for _, r := range c.Routes {
		if !templated(r.Topic) && !seen[r.Topic] {
			seen[r.Topic] = true
			topics = append(topics, r.Topic)
		}
	}
	return topics
}
