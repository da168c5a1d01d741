package wal

import "github.com/cdc-relay/cdc-relay/internal/cdc"

// postgresEpochMicros is 2000-01-01 UTC in Unix microseconds, where PostgreSQL's clocks start.
const postgresEpochMicros = 946684800000000

// Type OIDs are fixed in src/include/catalog/pg_type.dat.
const (
	oidBool        = 16
	oidBytea       = 17
	oidName        = 19
	oidInt8        = 20
	oidInt2        = 21
	oidInt4        = 23
	oidText        = 25
	oidJSON        = 114
	oidBPChar      = 1042
	oidVarchar     = 1043
	oidTimestamp   = 1114
	oidTimestamptz = 1184
	oidUUID        = 2950
	oidJSONB       = 3802
)

// hasBinaryForm says whether a type's binary output is known here. One column without makes the whole
// stream text: pgoutput's binary option knows no columns.
func hasBinaryForm(oid uint32) bool {
	switch oid {
	case oidBool, oidBytea, oidName, oidInt8, oidInt2, oidInt4, oidText, oidJSON, oidBPChar, oidVarchar,
		oidTimestamp, oidTimestamptz, oidUUID, oidJSONB:
		return true
	}
	return false
}

func formOf(oid uint32, binaryMode bool) cdc.Form {
	if binaryMode {
		return binaryForm(oid)
	}
	switch oid {
	case oidBytea:
		return cdc.FormHex
	case oidTimestamp, oidTimestamptz:
		return cdc.FormTimestampText
	case oidBool:
		return cdc.FormBool
	}
	return cdc.FormText
}

func binaryForm(oid uint32) cdc.Form {
	switch oid {
	case oidBool:
		return cdc.FormBool
	case oidBytea:
		return cdc.FormBytes
	case oidInt2, oidInt4, oidInt8:
		return cdc.FormInt
	case oidTimestamptz:
		return cdc.FormMicros2000
	case oidTimestamp:
		return cdc.FormLocalMicros2000
	case oidUUID:
		return cdc.FormUUID
	case oidJSONB:
		return cdc.FormJSONB
	}
	return cdc.FormText
}
