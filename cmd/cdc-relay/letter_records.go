package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/binlog"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/deadletter"
	"github.com/cdc-relay/cdc-relay/internal/display"
	"github.com/cdc-relay/cdc-relay/internal/finding"
	"github.com/cdc-relay/cdc-relay/internal/kafka"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/postgres"
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

func (p *postgresCommands) ownLetters() []outbox.LetterRecord {
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

func (p *postgresCommands) letterRecords(ctx context.Context, dsn connString) ([]outbox.LetterRecord, error) {
	db, err := p.open(ctx, dsn)
	if err != nil {
		return nil, err
	}
	defer db.Close(context.WithoutCancel(ctx))
	return p.readLetterRecords(ctx, db)
}

// letterSlots returns the slots of the relays that have dead letters of a table.
func (p *postgresCommands) letterSlots(db *postgres.Database, table string) postgres.Slots {
	return func(ctx context.Context) (slots []string, err error) {
		records, err := p.readLetterRecords(ctx, db)
		for _, r := range records {
			if slot, here := strings.CutPrefix(r.Source, p.config.Database()+" "); here && r.Table == table {
				slots = append(slots, slot)
			}
		}
		return slots, err
	}
}

func (p *postgresCommands) readLetterRecords(ctx context.Context, db *postgres.Database) ([]outbox.LetterRecord, error) {
	there, err := db.Names(ctx, readingLetterRecords, outbox.PostgresLetterTableThere())
	if err != nil || len(there) == 0 {
		return nil, err
	}
	rows, err := db.Names(ctx, readingLetterRecords, outbox.PostgresLetterRecords())
	if postgres.IsDenied(err) {
		return nil, unknownRecords("run `"+outbox.GrantLetterRecords(db.Server.Role)+"` as the schema's owner", err)
	}
	if err != nil {
		return nil, err
	}
	return parseLetterRecords(rows, p.list)
}

func (p *postgresCommands) forgetLetters(r outbox.LetterRecord) string { return r.ForgetPostgres() }

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
		if binlog.IsDenied(err) {
			return nil, unknownRecords("run `cdc-relay setup` with the owner's connection string, which makes that table and grants the right to read it", err)
		}
		if err != nil {
			return nil, err
		}
		found, err := parseLetterRecords(rows, m.list)
		if err != nil {
			return nil, err
		}
		records = append(records, found...)
	}
	return records, nil
}

// unrecordedError is an error after which only a person can tell where dead letters are; others may pass.
type unrecordedError struct{ error }

func (e unrecordedError) Unwrap() error { return e.error }

func unknownRecords(fix string, cause error) error {
	return unrecordedError{&cdc.FixableError{Cause: cause, Fix: fix}}
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
			return unknownRecords("run `cdc-relay setup` with the owner's connection string, which records it",
				fmt.Errorf("the database does not say that relay %q has dead letters of %s in topic %q, so another configuration might remove their rows", r.Source, r.Table, r.Topic))
		}
	}
	return nil
}

// mayStub lets letters be without their payload once all who remove rows can know of them. While the database is away it waits.
func mayStub(c *config.Config, db database, log *slog.Logger) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		for {
			err := recorded(ctx, db)
			switch {
			case err == nil || ctx.Err() != nil:
				return ctx.Err()
			case errors.As(err, new(unrecordedError)):
				return cdc.Stop(cdc.ClassConfig, "dead_letter_without_payload",
					fmt.Errorf("an event is too large for topic %q of dead letters, so that only its row would have the payload: %w", c.DeadLetter.Topic, err),
					fmt.Sprintf("%s; or set max.message.bytes of topic %s to %d", cdc.Fix(err), c.DeadLetter.Topic, letterBytes))
			}
			log.Warn("dead letters wait until it is known that the row of one without its payload is kept", cdc.Repeats(), slog.Any("error", err))
			select {
			case <-time.After(recordPause):
			case <-ctx.Done():
			}
		}
	}
}

const (
	recordTimeout = 5 * time.Second
	recordPause   = time.Second
)

// recorded is unrecorded for the relay's own connection string.
func recorded(ctx context.Context, db database) error {
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	dsn, err := db.connString("")
	if err != nil {
		return err
	}
	return unrecorded(ctx, db, dsn)
}

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

// needed says whether rows are needed: no pass removes rows while it may be so.
type needed struct {
	config *config.Config
	db     database
	dsn    connString
	// others are configurations of relays whose letters may be in another Kafka.
	others []*config.Config
}

// check returns an error that names dead letters of any relay whose payload is only in a table of the configuration; nil if there are
// none.
func (n *needed) check(ctx context.Context) error {
	records, err := n.db.letterRecords(ctx, n.dsn)
	if err != nil {
		return err
	}
	records = append(records, n.db.ownLetters()...)
	slices.SortFunc(records, func(a, b outbox.LetterRecord) int {
		return cmp.Or(strings.Compare(a.Topic, b.Topic), strings.Compare(a.Source, b.Source))
	})
	for _, r := range slices.CompactFunc(records, sameLetters) {
		of, err := n.configOf(r)
		if err == nil {
			err = n.stubsOf(ctx, r, of)
		}
		if err != nil {
			return err
		}
	}
	if len(records) > 0 {
		return nil
	}
	// A relay of an earlier version wrote no record.
	err = n.stubsOf(ctx, outbox.LetterRecord{Topic: config.DefaultLetterTopic(n.config.Database())}, n.config)
	if errors.Is(err, kafka.ErrTopicMissing) {
		return nil
	}
	return err
}

// sameLetters reports whether two records are of the letters of one relay; each of its tables has a record.
func sameLetters(a, b outbox.LetterRecord) bool { return a.Topic == b.Topic && a.Source == b.Source }

// configOf returns the configuration of a record's relay; nil: it is not known.
func (n *needed) configOf(r outbox.LetterRecord) (*config.Config, error) {
	for _, c := range append([]*config.Config{n.config}, n.others...) {
		db, err := newDatabase(c)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(db.ownLetters(), func(own outbox.LetterRecord) bool { return sameLetters(own, r) }) {
			return c, nil
		}
	}
	return nil, nil
}

// stubsOf looks at the letters of one relay. of is its configuration; if that is nil they may be in another Kafka.
func (n *needed) stubsOf(ctx context.Context, r outbox.LetterRecord, of *config.Config) error {
	c := *cmp.Or(of, n.config)
	c.DeadLetter.Topic = r.Topic
	list, read, err := letterDesk(&c).List(ctx, deadletter.Filter{Stubs: true})
	elsewhere := func(here string) error {
		return cdc.Fixable("run `cdc-relay partitions run --letters-of FILE` from a timer in place of this pass, where FILE is the configuration of that relay; if that relay is gone for good, run `"+n.db.forgetLetters(r)+"`",
			"dead letters of relay %q may need these rows, and that relay has another Kafka than %s, where topic %q %s", r.Source, strings.Join(c.Kafka.Brokers, ","), r.Topic, here)
	}
	switch {
	case of == nil && errors.Is(err, kafka.ErrTopicMissing):
		return elsewhere("does not exist")
	case err != nil:
		return err
	case of == nil && read.Source != nil:
		if source := letterSource(read.Source.SystemID, read.Source.Database, read.Source.Slot); source != r.Source {
			return elsewhere(fmt.Sprintf("has those of relay %q", source))
		}
	}
	if len(list) == 0 {
		return nil
	}
	return cdc.Fixable("see the reasons with `cdc-relay dlq list` and the configuration of that relay; once they are repaired, publish the letters with `cdc-relay dlq retry --all --yes`, or drop those that nobody needs",
		"the payload of %s of relay %q is only in the outbox table, that of %s among them", display.Plural(len(list), "dead letter"), cmp.Or(r.Source, "unknown"), list[0].Letter)
}
