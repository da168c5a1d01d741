package wal

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5/pgtype"
	"pgregory.net/rapid"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/postgres"
)

// encodeInsert writes an Insert message as pgoutput does; nil is NULL.
func encodeInsert(id uint32, kind byte, values [][]byte) []byte {
	m := binary.BigEndian.AppendUint32([]byte{msgInsert}, id)
	m = append(m, 'N')
	m = binary.BigEndian.AppendUint16(m, uint16(len(values)))
	for _, v := range values {
		if v == nil {
			m = append(m, 'n')
			continue
		}
		m = binary.BigEndian.AppendUint32(append(m, kind), uint32(len(v)))
		m = append(m, v...)
	}
	return m
}

func encodeRelation(id uint32, schema, name string, columns []string, types []uint32) []byte {
	m := binary.BigEndian.AppendUint32([]byte{msgRelation}, id)
	m = append(m, schema+"\x00"+name+"\x00d"...)
	m = binary.BigEndian.AppendUint16(m, uint16(len(columns)))
	for i, c := range columns {
		m = append(m, 0)
		m = append(m, c+"\x00"...)
		m = binary.BigEndian.AppendUint32(m, types[i])
		m = append(m, 0xff, 0xff, 0xff, 0xff)
	}
	return m
}

func TestRelationRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[a-z_ "]{1,20}`)
		columns := rapid.SliceOfN(name, 0, 20).Draw(t, "columns")
		types := make([]uint32, len(columns))
		for i := range types {
			types[i] = rapid.SampledFrom([]uint32{pgtype.TextOID, pgtype.ByteaOID, pgtype.UUIDOID, pgtype.TimestamptzOID, pgtype.Int4OID, pgtype.JSONBOID, 1700}).Draw(t, "type")
		}
		id, schema, table, binaryMode := rapid.Uint32().Draw(t, "id"), name.Draw(t, "schema"), name.Draw(t, "table"), rapid.Bool().Draw(t, "binary")
		m := encodeRelation(id, schema, table, columns, types)
		gotID, r, err := decodeRelation(m, nil, binaryMode)
		if err != nil || gotID != id || r.table.Schema != schema || r.table.Name != table || len(r.table.Columns) != len(columns) {
			t.Fatalf("decoded %d %+v: %v", gotID, r, err)
		}
		for i, c := range r.table.Columns {
			if r.types[i] != types[i] || c != postgres.Types(nil).Column(columns[i], types[i], binaryMode) {
				t.Fatalf("column %d is %+v of type %d", i, c, r.types[i])
			}
		}
		for cut := range m {
			if _, _, err := decodeRelation(m[:cut], nil, binaryMode); err == nil {
				t.Fatalf("a message cut at %d of %d was accepted", cut, len(m))
			}
		}
	})
}

func TestInsertRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) []byte {
			if rapid.Bool().Draw(t, "null") {
				return nil
			}
			return append([]byte{}, rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "value")...)
		}), 0, 20).Draw(t, "values")
		r := &relation{table: &cdc.Table{Columns: make([]cdc.Column, len(values))}, kind: 'b'}
		const base = 100
		m := encodeInsert(7, 'b', values)
		spans, err := decodeInsert(m, base, r, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range values {
			s := spans[i]
			if (s.Len < 0) != (v == nil) || v != nil && !bytes.Equal(m[s.Off-base:s.Off-base+s.Len], v) {
				t.Fatalf("value %d stands at %+v", i, s)
			}
		}
		for cut := range m {
			if _, err := decodeInsert(m[:cut], base, r, nil); err == nil {
				t.Fatalf("a message cut at %d of %d was accepted", cut, len(m))
			}
		}
	})
}

func TestInsertRefusals(t *testing.T) {
	r := &relation{table: &cdc.Table{Schema: "s", Name: "t", Columns: make([]cdc.Column, 1)}, kind: 'b'}
	for name, m := range map[string][]byte{
		"text in a binary stream": encodeInsert(1, 't', [][]byte{{1}}),
		"unchanged TOAST":         {msgInsert, 0, 0, 0, 1, 'N', 0, 1, 'u'},
		"another column count":    encodeInsert(1, 'b', [][]byte{{1}, {2}}),
		"an old tuple":            {msgInsert, 0, 0, 0, 1, 'O', 0, 1, 'n'},
	} {
		if _, err := decodeInsert(m, 0, r, nil); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

// FuzzDecode feeds every decoder with whatever comes: no panic, and no span outside of the message.
func FuzzDecode(f *testing.F) {
	f.Add(encodeRelation(1, "public", "outbox", []string{"id", "payload"}, []uint32{pgtype.UUIDOID, pgtype.ByteaOID})[1:])
	f.Add(encodeInsert(1, 'b', [][]byte{[]byte("0123456789abcdef"), nil}))
	f.Add(make([]byte, 17))
	f.Fuzz(func(t *testing.T, m []byte) {
		_ = decoded(new(pglogrepl.TypeMessage), append([]byte{msgType}, m...))
		_ = decoded(new(pglogrepl.LogicalDecodingMessage), append([]byte{msgMessage}, m...))
		_, _, _ = decodeRelation(append([]byte{msgRelation}, m...), nil, true)
		for columns := range 4 {
			r := &relation{table: &cdc.Table{Columns: make([]cdc.Column, columns)}, kind: 'b'}
			spans, err := decodeInsert(m, 0, r, nil)
			for _, s := range spans {
				if s.Len >= 0 && int(s.Off+s.Len) > len(m) {
					t.Errorf("span %+v of a message of %d bytes", s, len(m))
				}
			}
			if err == nil && len(spans) != columns {
				t.Errorf("%d spans for %d columns", len(spans), columns)
			}
		}
	})
}

func TestMarks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m positionIndex
		var model []mark
		var seq, trimmed uint64
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				seq += rapid.Uint64Range(0, 3).Draw(t, "step") // an attempt that failed adds its seq again
				k := mark{seq: seq, resume: lsn(len(model) + 1)}
				m.add(k)
				model = append(model, k)
			},
			"trim": func(t *rapid.T) {
				to := rapid.Uint64Range(trimmed, seq+1).Draw(t, "to")
				got, ok := m.trim(to)
				if want, found := modelAt(model, to); ok != found || got != want {
					t.Fatalf("trim(%d) = %+v, %v; want %+v, %v", to, got, ok, want, found)
				}
				trimmed = to
			},
			"at": func(t *rapid.T) {
				to := rapid.Uint64Range(trimmed, seq+1).Draw(t, "at")
				got, ok := m.at(to)
				if want, found := modelAt(model, to); ok != found || got != want {
					t.Fatalf("at(%d) = %+v, %v; want %+v, %v", to, got, ok, want, found)
				}
			},
		})
	})
}

func modelAt(model []mark, seq uint64) (last mark, ok bool) {
	for _, k := range model {
		if k.seq <= seq {
			last, ok = k, true
		}
	}
	return last, ok
}

// While nothing is confirmed, because the checkpoint store is away, only so many are kept. What is durable next has its own position.
func TestMarksAreLimited(t *testing.T) {
	const inFlight = 100
	var m positionIndex
	for seq := uint64(1); seq <= 10*maxMarks; seq++ {
		m.add(mark{seq: seq, resume: lsn(seq)})
		if durable := seq - min(seq, inFlight); durable > 0 {
			if k, _ := m.progressed(durable); k.seq != durable {
				t.Fatalf("the position of batch %d is that of %d", durable, k.seq)
			}
		}
	}
	if n := cap(m.list); n > 3*maxMarks {
		t.Errorf("%d marks are kept", n)
	}
	for seq := range uint64(10 * maxMarks) {
		if k, ok := m.at(seq + 1); !ok || k.seq > seq+1 || k.resume != lsn(k.seq) {
			t.Fatalf("batch %d has %+v", seq+1, k)
		}
	}
}

func TestPingsThatMeanAShutdown(t *testing.T) {
	for n := 1; n <= stoppingPings; n++ {
		var p pings
		for i := range n {
			p.add(5, testTime(i*100))
		}
		if stopping := p.n >= stoppingPings; stopping != (n == stoppingPings) {
			t.Errorf("%d questions in a row: stopping %v", n, stopping)
		}
	}
	var p pings
	for i := range 20 {
		p.add(lsn(i), testTime(i)) // the log moves on
		p.add(lsn(i), testTime(i*5000))
	}
	if p.n >= stoppingPings {
		t.Error(fmt.Sprint("questions far apart, or about other positions, were taken for a shutdown: ", p.n))
	}
}
