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

// add notes a type with its sender. A domain has that of its base, and citext that of text.
func (t Types) add(oid uint32, sender string) {
	if oid < firstUserOID {
		return
	}
	t[oid] = oid
	if base := sentBy(sender); base != 0 {
		t[oid] = base
	}
}

func sentBy(sender string) uint32 {
	switch sender {
	case "boolsend":
		return pgtype.BoolOID
	case "byteasend":
		return pgtype.ByteaOID
	case "namesend":
		return pgtype.NameOID
	case "int2send":
		return pgtype.Int2OID
	case "int4send":
		return pgtype.Int4OID
	case "int8send":
		return pgtype.Int8OID
	case "textsend", "enum_send":
		return pgtype.TextOID
	case "varcharsend":
		return pgtype.VarcharOID
	case "bpcharsend":
		return pgtype.BPCharOID
	case "json_send":
		return pgtype.JSONOID
	case "jsonb_send":
		return pgtype.JSONBOID
	case "timestamp_send":
		return pgtype.TimestampOID
	case "timestamptz_send":
		return pgtype.TimestamptzOID
	case "uuid_send":
		return pgtype.UUIDOID
	case "numeric_send":
		return pgtype.NumericOID
	case "float4send":
		return pgtype.Float4OID
	case "float8send":
		return pgtype.Float8OID
	}
	return 0
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

func (t Types) base(oid uint32) uint32 {
	if base := t[oid]; base != 0 {
		return base
	}
	return oid
}

// HasBinaryForm says whether a type's binary output is known here. One needed column without makes the
// whole stream text: pgoutput's binary option knows no columns.
func (t Types) HasBinaryForm(oid uint32) bool { return binaryForm(t.base(oid)) != cdc.FormOpaque }

// Column returns a column as a stream that is binary or text has it.
func (t Types) Column(name string, oid uint32, binaryMode bool) cdc.Column {
	oid = t.base(oid)
	return cdc.Column{Name: name, Form: formOf(oid, binaryMode), Type: typeOf(oid)}
}

func formOf(oid uint32, binaryMode bool) cdc.Form {
	if binaryMode {
		return binaryForm(oid)
	}
	switch oid {
	case pgtype.ByteaOID:
		return cdc.FormHex
	case pgtype.TimestampOID, pgtype.TimestamptzOID:
		return cdc.FormTimestampText
	case pgtype.BoolOID:
		return cdc.FormBool
	}
	return cdc.FormText
}

func binaryForm(oid uint32) cdc.Form {
	switch oid {
	case pgtype.TextOID, pgtype.VarcharOID, pgtype.BPCharOID, pgtype.NameOID, pgtype.JSONOID:
		return cdc.FormText
	case pgtype.BoolOID:
		return cdc.FormBool
	case pgtype.ByteaOID:
		return cdc.FormBytes
	case pgtype.Int2OID, pgtype.Int4OID, pgtype.Int8OID:
		return cdc.FormInt
	case pgtype.TimestamptzOID:
		return cdc.FormMicros2000
	case pgtype.TimestampOID:
		return cdc.FormLocalMicros2000
	case pgtype.UUIDOID:
		return cdc.FormUUID
	case pgtype.JSONBOID:
		return cdc.FormJSONB
	}
	return cdc.FormOpaque
}

func typeOf(oid uint32) cdc.Type {
	switch oid {
	case pgtype.TextOID, pgtype.VarcharOID, pgtype.NameOID:
		return cdc.TypeText
	case pgtype.BPCharOID:
		return cdc.TypeChar
	case pgtype.ByteaOID:
		return cdc.TypeBytes
	case pgtype.UUIDOID:
		return cdc.TypeUUID
	case pgtype.Int2OID, pgtype.Int4OID, pgtype.Int8OID:
		return cdc.TypeInteger
	case pgtype.NumericOID:
		return cdc.TypeDecimal
	case pgtype.Float4OID, pgtype.Float8OID:
		return cdc.TypeFloat
	case pgtype.BoolOID:
		return cdc.TypeBool
	case pgtype.JSONOID, pgtype.JSONBOID:
		return cdc.TypeJSON
	case pgtype.TimestamptzOID:
		return cdc.TypeTime
	case pgtype.TimestampOID:
		return cdc.TypeLocalTime
	}
	return cdc.TypeOther
}
