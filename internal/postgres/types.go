package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// EpochMicros is 2000-01-01 UTC in Unix microseconds, where PostgreSQL's clocks start.
const EpochMicros = 946684800000000

// firstUserOID is the first OID of what users create (FirstNormalObjectId in src/include/access/transam.h).
const firstUserOID = 16384

// Types are the types of PostgreSQL whose values those of users' types are: of a domain its base, of an ENUM and of citext text. A type
// that has none stands for itself.
type Types map[uint32]uint32

// senderOf and its argument are the C function that makes a type's binary output, where it is one of the server's own.
const senderOf = `(SELECT s.prosrc FROM pg_type st JOIN pg_proc s ON s.oid = st.typsend JOIN pg_language l ON l.oid = s.prolang
	WHERE l.lanname = 'internal' AND st.oid = `

// timeType is the name of the date or timestamp that type t is or, being a domain, has behind it; NULL for others.
const timeType = `substring(t.typsend::regproc::text FROM '^(timestamptz|timestamp|date)_send$')`

// localTime is the timeType without a zone.
const localTime = "timestamp"

// senderOfColumn is that of column a; NULL for the server's own types.
const senderOfColumn = senderOf + `a.atttypid AND st.oid >= 16384)`

// serverType is what is known of a type of the server's own.
type serverType struct {
	sender       string // the function of its binary output
	kind         cdc.Type
	binary, text cdc.Form
}

func serverTypes() map[uint32]serverType {
	return map[uint32]serverType{
		pgtype.BoolOID:        {"boolsend", cdc.TypeBool, cdc.FormBool, cdc.FormBool},
		pgtype.ByteaOID:       {"byteasend", cdc.TypeBytes, cdc.FormBytes, cdc.FormHex},
		pgtype.NameOID:        {"namesend", cdc.TypeText, cdc.FormText, cdc.FormText},
		pgtype.Int2OID:        {"int2send", cdc.TypeInteger, cdc.FormInt, cdc.FormText},
		pgtype.Int4OID:        {"int4send", cdc.TypeInteger, cdc.FormInt, cdc.FormText},
		pgtype.Int8OID:        {"int8send", cdc.TypeInteger, cdc.FormInt, cdc.FormText},
		pgtype.TextOID:        {"textsend", cdc.TypeText, cdc.FormText, cdc.FormText},
		pgtype.VarcharOID:     {"varcharsend", cdc.TypeText, cdc.FormText, cdc.FormText},
		pgtype.BPCharOID:      {"bpcharsend", cdc.TypeChar, cdc.FormText, cdc.FormText},
		pgtype.JSONOID:        {"json_send", cdc.TypeJSON, cdc.FormText, cdc.FormText},
		pgtype.JSONBOID:       {"jsonb_send", cdc.TypeJSON, cdc.FormJSONB, cdc.FormText},
		pgtype.TimestampOID:   {"timestamp_send", cdc.TypeLocalTime, cdc.FormLocalMicros2000, cdc.FormTimestampText},
		pgtype.TimestamptzOID: {"timestamptz_send", cdc.TypeTime, cdc.FormMicros2000, cdc.FormTimestampText},
		pgtype.UUIDOID:        {"uuid_send", cdc.TypeUUID, cdc.FormUUID, cdc.FormText},
		pgtype.NumericOID:     {"numeric_send", cdc.TypeDecimal, cdc.FormOpaque, cdc.FormText},
		pgtype.Float4OID:      {"float4send", cdc.TypeFloat, cdc.FormOpaque, cdc.FormText},
		pgtype.Float8OID:      {"float8send", cdc.TypeFloat, cdc.FormOpaque, cdc.FormText},
	}
}

// add notes a type with its sender. A domain has that of its base, and citext that of text.
func (t Types) add(oid uint32, sender string) {
	if oid < firstUserOID {
		return
	}
	t[oid] = oid
	if sender == "enum_send" { // which sends text
		sender = "textsend"
	}
	for base, known := range serverTypes() {
		if known.sender == sender {
			t[oid] = base
		}
	}
}

// Knows reports whether a type is the server's own or was read from the catalog.
func (t Types) Knows(oid uint32) bool { return oid < firstUserOID || t[oid] != 0 }

// Read reads a type. base is the server's own type behind it, if the stream has said so, for a domain that was dropped since. Another
// type that was dropped stands for itself.
func (t Types) Read(ctx context.Context, conn *pgx.Conn, oid uint32, base string) error {
	var by string
	err := conn.QueryRow(ctx, "SELECT COALESCE("+senderOf+"$1), "+senderOf+"(SELECT oid FROM pg_type WHERE typname = $2 AND typnamespace = 'pg_catalog'::regnamespace)), '')",
		oid, base).Scan(&by)
	if err != nil {
		return fmt.Errorf("read type %d: %w", oid, err)
	}
	t.add(oid, by)
	return nil
}

// of returns what is known of a type, or of the server's own type behind it.
func (t Types) of(oid uint32) serverType {
	if base := t[oid]; base != 0 {
		oid = base
	}
	if known, ok := serverTypes()[oid]; ok {
		return known
	}
	return serverType{binary: cdc.FormOpaque}
}

// HasBinaryForm says whether a type's binary output is known here. One needed column without makes the
// whole stream text: pgoutput's binary option knows no columns.
func (t Types) HasBinaryForm(oid uint32) bool { return t.of(oid).binary != cdc.FormOpaque }

// Column returns a column as a stream that is binary or text has it.
func (t Types) Column(name string, oid uint32, binaryMode bool) cdc.Column {
	known := t.of(oid)
	if binaryMode {
		return cdc.Column{Name: name, Form: known.binary, Type: known.kind}
	}
	return cdc.Column{Name: name, Form: known.text, Type: known.kind}
}
