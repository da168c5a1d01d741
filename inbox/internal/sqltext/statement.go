// Package sqltext writes the inbox's SQL for each dialect.
package sqltext

import (
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/cdc-relay/cdc-relay/writer"
)

// Statement is a statement with its values. On PostgreSQL values are parameters. On MySQL and MariaDB they are hexadecimal
// digits in the text: drivers prepare a statement that has parameters, which would cost a second round trip.
type Statement struct {
	dialect writer.Dialect
	text    strings.Builder
	args    []any
}

// New returns a statement that begins with text.
func New(d writer.Dialect, text string) *Statement {
	s := &Statement{dialect: d}
	return s.Add(text)
}

// Postgres reports whether the dialect is PostgreSQL's.
func (s *Statement) Postgres() bool { return s.dialect == writer.Postgres }

// Add adds SQL.
func (s *Statement) Add(text string) *Statement {
	s.text.WriteString(text)
	return s
}

// Text adds a value of type text (VARBINARY).
func (s *Statement) Text(v string) *Statement {
	if s.Postgres() {
		return s.arg(v)
	}
	return s.Add("x'").Add(hex.EncodeToString([]byte(v))).Add("'")
}

// Texts adds values of type text with commas between them.
func (s *Statement) Texts(vs ...string) *Statement {
	for i, v := range vs {
		if i > 0 {
			s.Add(", ")
		}
		s.Text(v)
	}
	return s
}

// Bytes adds a value of type bytea (VARBINARY, BLOB); nil is NULL.
func (s *Statement) Bytes(v []byte) *Statement {
	switch {
	case v == nil:
		return s.Add("NULL")
	case s.Postgres():
		return s.arg(v)
	default:
		return s.Text(string(v))
	}
}

// Int adds an integer.
func (s *Statement) Int(n int64) *Statement { return s.Add(strconv.FormatInt(n, 10)) }

// Time adds a time, to the microsecond. On MySQL and MariaDB it is in the session's time zone, as a TIMESTAMP is.
func (s *Statement) Time(t time.Time) *Statement {
	if s.Postgres() {
		return s.Add("timestamptz '").Add(t.UTC().Format("2006-01-02 15:04:05.999999")).Add("+00'")
	}
	return s.Add("FROM_UNIXTIME(").Int(t.Unix()).Add(t.UTC().Format(".000000)")) // a quotient would have four digits
}

func (s *Statement) arg(v any) *Statement {
	s.args = append(s.args, v)
	return s.Add("$").Add(strconv.Itoa(len(s.args)))
}

// SQL returns the text and its parameters.
func (s *Statement) SQL() (query string, args []any) { return s.text.String(), s.args }

// Array adds an array of texts, on PostgreSQL only, as the text of its literal: every driver can send that.
func (s *Statement) Array(vs []string) *Statement {
	var b strings.Builder
	for i, v := range vs {
		b.WriteString([2]string{"{", ","}[min(i, 1)])
		b.WriteByte('"')
		for _, c := range []byte(v) {
			if c == '"' || c == '\\' {
				b.WriteByte('\\')
			}
			b.WriteByte(c)
		}
		b.WriteByte('"')
	}
	if len(vs) == 0 {
		b.WriteByte('{')
	}
	b.WriteByte('}')
	return s.arg(b.String()).Add("::text::text[]")
}
