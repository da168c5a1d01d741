package postgres

import (
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// EpochMicros is 2000-01-01 UTC in Unix microseconds, where PostgreSQL's clocks start.
const EpochMicros = 946684800000000

// HasBinaryForm says whether a type's binary output is known here. One column without makes the whole
// stream text: pgoutput's binary option knows no columns.
func HasBinaryForm(oid uint32) bool {
	switch oid {
	case pgtype.BoolOID, pgtype.ByteaOID, pgtype.NameOID, pgtype.Int8OID, pgtype.Int2OID, pgtype.Int4OID, pgtype.TextOID, pgtype.JSONOID, pgtype.BPCharOID, pgtype.VarcharOID,
		pgtype.TimestampOID, pgtype.TimestamptzOID, pgtype.UUIDOID, pgtype.JSONBOID:
		return true
	}
	return false
}

// FormOf returns the form of a type's values in a stream that is binary or text.
func FormOf(oid uint32, binaryMode bool) cdc.Form {
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
	return cdc.FormText
}
