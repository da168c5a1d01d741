package cdc_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// What a real server sends in binary and in text reads as the same.
func TestFormsOfPostgres(t *testing.T) {
	pg := testenv.Postgres(t, testenv.PostgresOptions{})
	conn, err := pgx.Connect(t.Context(), pg.DSN("postgres", ""))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	for _, tt := range []struct {
		value        string
		binary, text cdc.Form
		want         string
	}{
		{"'0198C0DE-0000-7000-8000-00000000002A'::uuid", cdc.FormUUID, cdc.FormText, "0198c0de-0000-7000-8000-00000000002a"},
		{"'2026-01-02 05:04:05.060+02'::timestamptz", cdc.FormMicros2000, cdc.FormTimestampText, "2026-01-02T03:04:05.06Z"},
		{"'2026-01-02 03:04:05'::timestamptz", cdc.FormMicros2000, cdc.FormTimestampText, "2026-01-02T03:04:05Z"},
		{"'1999-12-31 23:59:59.999999'::timestamptz", cdc.FormMicros2000, cdc.FormTimestampText, "1999-12-31T23:59:59.999999Z"},
		{"'0001-01-01'::timestamptz", cdc.FormMicros2000, cdc.FormTimestampText, "0001-01-01T00:00:00Z"},
		{"'infinity'::timestamptz", cdc.FormMicros2000, cdc.FormTimestampText, "infinity"},
		{"'-infinity'::timestamptz", cdc.FormMicros2000, cdc.FormTimestampText, "-infinity"},
		{"'2026-01-02 03:04:05.123456'::timestamp", cdc.FormLocalMicros2000, cdc.FormTimestampText, "2026-01-02T03:04:05.123456Z"},
		{"(-7)::int2", cdc.FormInt, cdc.FormText, "-7"},
		{"2147483647::int4", cdc.FormInt, cdc.FormText, "2147483647"},
		{"(-9223372036854775808)::int8", cdc.FormInt, cdc.FormText, "-9223372036854775808"},
		{"true", cdc.FormBool, cdc.FormBool, "true"},
		{"false", cdc.FormBool, cdc.FormBool, "false"},
		{`'{"b":1,"a":"\u00e4"}'::jsonb`, cdc.FormJSONB, cdc.FormText, `{"a": "ä", "b": 1}`},
		{`'{"b":1, "a":2}'::json`, cdc.FormText, cdc.FormText, `{"b":1, "a":2}`},
		{`'\x00ff41'::bytea`, cdc.FormBytes, cdc.FormHex, "\x00\xffA"},
		{`''::bytea`, cdc.FormBytes, cdc.FormHex, ""},
		{"'grüße'::text", cdc.FormText, cdc.FormText, "grüße"},
	} {
		for format, form := range []cdc.Form{tt.text, tt.binary} {
			raw := value(t, conn.PgConn(), tt.value, int16(format))
			if got, err := form.AppendText(nil, raw); err != nil || string(got) != tt.want {
				t.Errorf("%s in format %d is %q: %q, %v; want %q", tt.value, format, raw, got, err, tt.want)
			}
		}
	}
}

// value returns a value as the server sends it: format 0 is text, 1 binary.
func value(t *testing.T, conn *pgconn.PgConn, expression string, format int16) []byte {
	t.Helper()
	result := conn.ExecParams(t.Context(), "SELECT "+expression, nil, nil, nil, []int16{format}).Read()
	if result.Err != nil {
		t.Fatal(result.Err)
	}
	return result.Rows[0][0]
}
