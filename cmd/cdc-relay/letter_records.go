package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/binlog"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/finding"
	"github.com/cdc-relay/cdc-relay/internal/kafka"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
)

// This file finds the dead letters of every relay of a table, whichever configuration removes rows; see docs/maintainers/dead-letters.md.

// letterSource names a source as its records in the database and in the index do: without what only the server knows.
func letterSource(system, database, slot string) string {
	if slot != "" {
		return database + " " + slot
	}
	return system + " " + database
}

// lettersOf returns the records of the relay of this configuration.
func lettersOf(c *config.Config, tables []outboxTable, source string) []outbox.LetterRecord {
	if !c.DeadLetter.On() {
		return nil
	}
	records := make([]outbox.LetterRecord, len(tables))
	for i, t := range tables {
		records[i] = outbox.LetterRecord{Table: t.name.String(), Topic: c.DeadLetter.Topic, Source: source}
	}
	return records
}

func (p *postgres) ownLetters() []outbox.LetterRecord {
	return lettersOf(p.config, p.list, letterSource("", p.config.Database(), p.wal.Slot))
}

func (m *mysql) ownLetters() []outbox.LetterRecord {
	return lettersOf(m.config, m.list, letterSource(m.config.Source.MySQL.ID, m.config.Database(), ""))
}

func parseLetterRecords(rows []string, tables []outboxTable) (records []outbox.LetterRecord, err error) {
	for _, row := range rows {
		r, err := outbox.ParseLetterRecord(row)
		if err != nil {
			return nil, err
		}
		if slices.Contains(tableNames(tables), r.Table) {
			records = append(records, r)
		}
	}
	return records, nil
}

const readingLetterRecords = "read which relays have dead letters"

func (p *postgres) letterRecords(ctx context.Context, dsn connString) ([]outbox.LetterRecord, error) {
	db, err := p.open(ctx, dsn)
	if err != nil {
		return nil, err
	}
	defer db.Close(context.WithoutCancel(ctx))
	there, err := db.Names(ctx, readingLetterRecords, outbox.PostgresLetterTableThere())
	if err != nil || len(there) == 0 {
		return nil, err
	}
	rows, err := db.Names(ctx, readingLetterRecords, outbox.PostgresLetterRecords())
	if err != nil {
		return nil, &cdc.FixableError{Cause: err, Fix: fmt.Sprintf("run `GRANT USAGE ON SCHEMA %s TO %s` as the schema's owner", outbox.PostgresLetterTable().Schema, outbox.Quote(db.Server.Role))}
	}
	return parseLetterRecords(rows, p.list)
}

func (p *postgres) forgetLetters(r outbox.LetterRecord) string { return r.ForgetPostgres() }

func (m *mysql) forgetLetters(r outbox.LetterRecord) string { return r.ForgetMySQL() }

// databases are those of the tables.
func (m *mysql) databases() (names []string) {
	for _, t := range m.list {
		if !slices.Contains(names, t.name.Schema) {
			names = append(names, t.name.Schema)
		}
	}
	return names
}

// needsRecords reports whether the relay writes or reads which relays have dead letters.
func (m *mysql) needsRecords() bool {
	return m.config.DeadLetter.On() || m.config.Partitions != nil || m.config.Retention != nil
}

func (m *mysql) letterRecords(ctx context.Context, dsn connString) (records []outbox.LetterRecord, err error) {
	db, err := m.open(ctx, dsn)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	return m.readLetterRecords(ctx, db)
}

func (m *mysql) readLetterRecords(ctx context.Context, db *binlog.Database) (records []outbox.LetterRecord, err error) {
	for _, name := range m.databases() {
		rows, err := db.Names(ctx, readingLetterRecords, outbox.MySQLLetterRecords(name))
		if binlog.NoSuchTable(err) {
			continue
		}
		if err != nil {
			return nil, &cdc.FixableError{Cause: err, Fix: "run `cdc-relay setup` with the owner's connection string, which makes that table and grants the right to read it"}
		}
		found, err := parseLetterRecords(rows, m.list)
		if err != nil {
			return nil, err
		}
		records = append(records, found...)
	}
	return records, nil
}

// unrecorded returns an error unless the database says where this relay's dead letters are.
func unrecorded(ctx context.Context, db database, dsn connString) error {
	mine := db.ownLetters()
	if len(mine) == 0 {
		return nil
	}
	records, err := db.letterRecords(ctx, dsn)
	if err != nil {
		return err
	}
	for _, r := range mine {
		if !slices.Contains(records, r) {
			return cdc.Fixable("run `cdc-relay setup` with the owner's connection string, which records it",
				"the database does not say that relay %q has dead letters of %s in topic %q, so another configuration might remove their rows", r.Source, r.Table, r.Topic)
		}
	}
	return nil
}

// mayStub lets letters be without their payload once all who remove rows can know of them.
func mayStub(c *config.Config, db database) func() error {
	known := false
	return func() error {
		if known {
			return nil
		}
		ctx, cancel := context.WithTimeout(context.Background(), recordTimeout)
		defer cancel()
		dsn, err := db.connString("")
		if err == nil {
			err = unrecorded(ctx, db, dsn)
		}
		if cdc.Fix(err) != "" {
			return cdc.Stop(cdc.ClassConfig, "dead_letter_without_payload",
				fmt.Errorf("an event is too large for topic %q of dead letters, so that only its row would have the payload: %w", c.DeadLetter.Topic, err),
				fmt.Sprintf("%s; or set max.message.bytes of topic %s to %d", cdc.Fix(err), c.DeadLetter.Topic, letterBytes))
		}
		known = err == nil
		return err
	}
}

const recordTimeout = 5 * time.Second

// recordFindings verifies that all who remove rows can know of this relay's letters.
func (c *check) recordFindings(ctx context.Context) []finding.Finding {
	dsn, err := c.db.connString("")
	if err != nil {
		return nil // reported
	}
	if err := unrecorded(ctx, c.db, dsn); err != nil {
		return []finding.Finding{{Severity: finding.Warn, Subject: "dead letters", Text: err.Error() + ", and the relay stops at an event that is too large for that topic", Fix: cdc.Fix(err)}}
	}
	return nil
}

// onlyInTable returns an error that names dead letters of any relay whose payload is only in a table of this configuration, so that
// their rows are kept; nil if there are none.
func onlyInTable(ctx context.Context, c *config.Config, db database, dsn connString) error {
	records, err := db.letterRecords(ctx, dsn)
	if err != nil {
		return err
	}
	mine := db.ownLetters()
	records = append(records, mine...)
	slices.SortFunc(records, func(a, b outbox.LetterRecord) int {
		return strings.Compare(a.Topic+"\x00"+a.Source, b.Topic+"\x00"+b.Source)
	})
	records = slices.CompactFunc(records, func(a, b outbox.LetterRecord) bool { return a.Topic == b.Topic && a.Source == b.Source })
	for _, r := range records {
		forget := db.forgetLetters(r)
		if slices.ContainsFunc(mine, func(m outbox.LetterRecord) bool { return m.Topic == r.Topic && m.Source == r.Source }) {
			forget = ""
		}
		if err := stubsOf(ctx, c, r, forget); err != nil {
			return err
		}
	}
	if len(records) > 0 {
		return nil
	}
	// A relay of an earlier version wrote no record.
	err = stubsOf(ctx, c, outbox.LetterRecord{Topic: config.DefaultLetterTopic(c.Database())}, "")
	stop, _ := errors.AsType[*cdc.StopError](err)
	if errors.Is(err, kafka.ErrTopicMissing) || stop != nil && stop.Reason == kafka.ReasonTopicDenied {
		return nil
	}
	return err
}

// stubsOf looks at the letters of one relay. forget removes the record of another one.
func stubsOf(ctx context.Context, c *config.Config, r outbox.LetterRecord, forget string) error {
	other := *c
	other.DeadLetter.Topic = r.Topic
	stubs, of, err := letterDesk(&other).Stubs(ctx)
	elsewhere := "run it with the configuration of that relay; if that relay is gone for good, run `" + forget + "`"
	switch {
	case errors.Is(err, kafka.ErrTopicMissing) && forget != "":
		return cdc.Fixable(elsewhere, "dead letters of relay %q may need these rows, and its topic %q does not exist in this Kafka", r.Source, r.Topic)
	case err != nil:
		return err
	case of != nil && forget != "" && letterSource(of.SystemID, of.Database, of.Slot) != r.Source:
		return cdc.Fixable(elsewhere, "dead letters of relay %q may need these rows, and topic %q of this Kafka has those of relay %q", r.Source, r.Topic, letterSource(of.SystemID, of.Database, of.Slot))
	}
	if len(stubs) == 0 {
		return nil
	}
	return cdc.Fixable("see `cdc-relay dlq list`, and publish them again (`cdc-relay dlq retry`) or drop them",
		"the payload of %s is only in the outbox table, that of %s among them", plural(len(stubs), "dead letter"), stubs[0].Letter)
}
