package source

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/mysql"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/postgres"
)

// LetterSource names a source as its records in the database and in the index do: without what only the server knows.
func LetterSource(system, database, slot string) string {
	if slot != "" {
		return database + " " + slot
	}
	return system + " " + database
}

// OwnLetters implements [Database].
func (c *configured) OwnLetters() []outbox.LetterRecord {
	if !c.Config.DeadLetter.On() {
		return nil
	}
	records := make([]outbox.LetterRecord, len(c.tables))
	for i, t := range c.tables {
		records[i] = outbox.LetterRecord{Table: t.Name.String(), Topic: c.Config.DeadLetter.Topic, Source: c.letters}
	}
	return records
}

func (c *configured) parseLetterRecords(rows []string) (records []outbox.LetterRecord, err error) {
	for _, row := range rows {
		r, err := outbox.ParseLetterRecord(row)
		if err != nil {
			return nil, err
		}
		if slices.Contains(c.names(), r.Table) {
			records = append(records, r)
		}
	}
	return records, nil
}

const readingLetterRecords = "read which relays have dead letters"

// LetterRecords implements [Database].
func (p *Postgres) LetterRecords(ctx context.Context, dsn ConnString) ([]outbox.LetterRecord, error) {
	db, err := p.Open(ctx, dsn)
	if err != nil {
		return nil, err
	}
	defer db.Close(context.WithoutCancel(ctx))
	return p.readLetterRecords(ctx, db)
}

// letterSlots returns the slots of the relays that have dead letters of a table.
func (p *Postgres) letterSlots(db *postgres.Database, table string) postgres.Slots {
	return func(ctx context.Context) (slots []string, err error) {
		records, err := p.readLetterRecords(ctx, db)
		for _, r := range records {
			if slot, here := strings.CutPrefix(r.Source, p.Config.Database()+" "); here && r.Table == table {
				slots = append(slots, slot)
			}
		}
		return slots, err
	}
}

func (p *Postgres) readLetterRecords(ctx context.Context, db *postgres.Database) ([]outbox.LetterRecord, error) {
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
	return p.parseLetterRecords(rows)
}

// ForgetLetters implements [Database].
func (p *Postgres) ForgetLetters(r outbox.LetterRecord) string { return r.ForgetPostgres() }

// ForgetLetters implements [Database].
func (m *MySQL) ForgetLetters(r outbox.LetterRecord) string { return r.ForgetMySQL() }

// Databases are those of the tables.
func (m *MySQL) Databases() (names []string) {
	for _, t := range m.tables {
		if !slices.Contains(names, t.Name.Schema) {
			names = append(names, t.Name.Schema)
		}
	}
	return names
}

// NeedsRecords reports whether the relay writes or reads which relays have dead letters.
func (m *MySQL) NeedsRecords() bool {
	return m.Config.DeadLetter.On() || m.Config.Partitions != nil || m.Config.Retention != nil
}

// LetterRecords implements [Database].
func (m *MySQL) LetterRecords(ctx context.Context, dsn ConnString) (records []outbox.LetterRecord, err error) {
	db, err := m.Open(ctx, dsn)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	for _, name := range m.Databases() {
		rows, err := db.Names(ctx, readingLetterRecords, outbox.MySQLLetterRecords(name))
		if mysql.NoSuchTable(err) {
			continue
		}
		if mysql.IsDenied(err) {
			return nil, unknownRecords("run `cdc-relay setup` with the owner's connection string, which makes that table and grants the right to read it", err)
		}
		if err != nil {
			return nil, err
		}
		found, err := m.parseLetterRecords(rows)
		if err != nil {
			return nil, err
		}
		records = append(records, found...)
	}
	return records, nil
}

// UnrecordedError is an error after which only a person can tell where dead letters are; others may pass.
type UnrecordedError struct{ error }

// Unwrap returns the cause.
func (e UnrecordedError) Unwrap() error { return e.error }

func unknownRecords(fix string, cause error) error {
	return UnrecordedError{&cdc.FixableError{Cause: cause, Fix: fix}}
}

// Unrecorded returns an error unless the database says where this relay's dead letters are.
func Unrecorded(ctx context.Context, db Database) error {
	mine := db.OwnLetters()
	if len(mine) == 0 {
		return nil
	}
	dsn, err := db.ConnString("")
	if err != nil {
		return err
	}
	records, err := db.LetterRecords(ctx, dsn)
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
