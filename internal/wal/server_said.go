package wal

import (
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/postgres"
)

// otherFrame: outside CopyData come notices, parameter changes, errors, and the end of the stream.
func (ss *session) otherFrame(kind byte, body []byte) error {
	switch kind {
	case 'S':
		return nil
	case 'N':
		return ss.notice(body)
	case 'E':
		var msg pgproto3.ErrorResponse
		if err := msg.Decode(body); err != nil {
			return fmt.Errorf("replication stream: %w", err)
		}
		return ss.unsent(postgres.ReplicationError(pgconn.ErrorResponseToPgError(&msg), ss.src.opts.Slot))
	case 'c', 'C', 'Z':
		return fmt.Errorf("%w: it ended the stream", postgres.ErrStopping)
	}
	return fmt.Errorf("replication stream: message of unknown kind %q", kind)
}

// notice heeds the warnings by which PostgreSQL says that it leaves rows out, or sends none for now.
func (ss *session) notice(body []byte) error {
	var said pgproto3.NoticeResponse
	if err := said.Decode(body); err != nil {
		return fmt.Errorf("replication stream: %w", err)
	}
	switch said.Routine { // it is in no language
	case "LoadPublications": // an error up to PostgreSQL 17
		return postgres.ReplicationError(&pgconn.PgError{Code: postgres.StateUndefinedObject, Message: said.Message}, ss.src.opts.Slot)
	case "StandbySlotsHaveCaughtup":
		ss.waits = true
		ss.src.opts.Problems.Report(waitsReporter, cdc.Problem{With: cdc.OnDatabase, Holds: true, Err: cdc.Fixable(
			"start that standby, or take its slot out of synchronized_standby_slots", "PostgreSQL sends nothing until a standby has received it: %s", said.Message)})
	}
	return nil
}

// waitsReporter reports that the server waits for a standby.
const waitsReporter = "standby"

// goesOn notes that the server has sent something.
func (ss *session) goesOn() {
	if ss.waits {
		ss.waits = false
		ss.src.opts.Problems.Report(waitsReporter)
	}
}

// unsent adds the transaction that the server could not send to its error.
func (ss *session) unsent(err error) error {
	tx := &ss.tx
	if _, stops := errors.AsType[*cdc.StopError](err); stops || !tx.open || errors.Is(err, postgres.ErrStopping) {
		return err
	}
	committed := time.UnixMicro(tx.micros).UTC().Format(time.RFC3339)
	since := committed
	if b := ss.batch; b != nil && len(b.Txs) > 0 { // those before it that came with it are not handed on either
		since = time.UnixMicro(b.Txs[0].Time).UTC().Format(time.RFC3339)
	}
	// The server skips transactions whose commit begins before the position, so the byte behind that is past this one and those before it.
	past := fmt.Sprintf("correct or delete the row in the table, stop the relay once `cdc-relay status` shows 0 events in flight, go past the transaction with `cdc-relay position set %s --skip-events`, then publish its other rows with `cdc-relay repair --since %s`, with --overlap if a created_at is more than 10m before that",
		tx.commit+1, since)
	return &cdc.UnsentError{Where: fmt.Sprintf("transaction %d, committed at %s, %s", tx.xid, committed, tx.commit), Past: past, Cause: err}
}
