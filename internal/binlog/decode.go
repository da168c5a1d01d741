package binlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/mysql"
)

var (
	errTruncated = errors.New("truncated event")
	errEnded     = errors.New("read binlog: the server ended it, it is shutting down")
	errMalformed = errors.New("truncated or malformed value")
)

// event is one event of the binlog: a header of 19 bytes and a body. Its bytes belong to the reader.
type event struct {
	raw []byte
}

const eventHeader = replication.EventHeaderSize

func (e event) kind() replication.EventType { return replication.EventType(e.raw[4]) }
func (e event) body() []byte                { return e.raw[eventHeader:] }
func (e event) seconds() uint32             { return binary.LittleEndian.Uint32(e.raw) }

// ignorable is a flag of events that a reader may leave out (LOG_EVENT_IGNORABLE_F).
func (e event) ignorable() bool { return binary.LittleEndian.Uint16(e.raw[17:])&0x80 != 0 }

// between reports whether an event of its kind begins a transaction or stands between two.
func (e event) between() bool {
	switch e.kind() { //nolint:exhaustive // the rest belongs to a transaction
	case replication.GTID_EVENT, replication.GTID_TAGGED_LOG_EVENT, replication.MARIADB_GTID_EVENT, replication.ANONYMOUS_GTID_EVENT,
		replication.FORMAT_DESCRIPTION_EVENT, replication.ROTATE_EVENT, replication.HEARTBEAT_EVENT, replication.HEARTBEAT_LOG_EVENT_V2,
		replication.INCIDENT_EVENT:
		return true
	}
	return false
}

// artificial is a flag of events that are not in the file (LOG_EVENT_ARTIFICIAL_F).
func (e event) artificial() bool { return binary.LittleEndian.Uint16(e.raw[17:])&0x20 != 0 }

// tableID of a table map or of rows.
func (e event) tableID() uint64 {
	b := e.body()
	if len(b) < 8 {
		return 0
	}
	return uint64(binary.LittleEndian.Uint32(b)) | uint64(binary.LittleEndian.Uint16(b[4:]))<<32
}

// tableName reads schema and name of a table map: two bytes of flags, then each name behind its length and
// followed by a zero.
func (e event) tableName() (string, error) {
	b := e.body()
	if len(b) < 9 {
		return "", fmt.Errorf("decode table map: %w", errTruncated)
	}
	schema := int(b[8])
	if len(b) < 11+schema {
		return "", fmt.Errorf("decode table map: %w", errTruncated)
	}
	name := int(b[10+schema])
	if len(b) < 11+schema+name {
		return "", fmt.Errorf("decode table map: %w", errTruncated)
	}
	return string(b[9:9+schema]) + "." + strings.TrimPrefix(string(b[11+schema:11+schema+name]), oldName), nil
}

// oldName is before a name that a statement gave as servers before 5.1 encoded it; MariaDB 11.4.5 still knows every table by that
// name too, and logs it.
const oldName = "#mysql50#"

// schema is a tracked table as its table map describes it.
type schema struct {
	body    []byte // of the table map
	table   *cdc.Table
	columns []column
	foreign bool // a column is in a character set that is not known here; see legible
	// compared is set once rows are known to have every column that is needed, or the catalog was read because those behind the table map
	// with the id lack one; see compareWithCatalog.
	compared bool
	id       uint64
}

// schemaOf makes a schema of a table map. charsets are by id of the collation.
func schemaOf(t *replication.TableMapEvent, body []byte, charsets map[uint64]mysql.Charset) (*schema, error) {
	s := &schema{body: bytes.Clone(body), table: &cdc.Table{Schema: string(t.Schema), Name: string(t.Table)}}
	names := t.ColumnNameString()
	if len(names) != int(t.ColumnCount) {
		return nil, content("row_metadata", setFull("binlog_row_metadata"),
			"table map of %s.%s carries no column names: binlog_row_metadata was not FULL, and events written without it cannot be read", t.Schema, t.Table)
	}
	if len(names) == 0 { // rows without columns would have no end
		return nil, fmt.Errorf("decode table map of %s.%s: it has no columns", t.Schema, t.Table)
	}
	countVectors(t.ColumnType)
	unsigned, collations, listed := t.UnsignedMap(), t.CollationMap(), t.EnumSetCollationMap()
	enums, sets := t.EnumStrValueMap(), t.SetStrValueMap()
	for i, name := range names {
		collation, text := collations[i]
		if !text {
			collation, text = listed[i]
		}
		cs := mysql.CharsetBinary
		if text {
			cs = charsets[collation]
		}
		c := columnOf(t.ColumnType[i], t.ColumnMeta[i], unsigned[i], cs)
		if c.kind == kindUnknown {
			return nil, content("column_type", fmt.Sprintf(
				"give it another one (ALTER TABLE %s.%s MODIFY ...; of a COMPRESSED column the same without COMPRESSED)", mysql.QuoteName(s.table.Schema), mysql.QuoteName(s.table.Name)),
				"column %s of %s has a type that cannot be read (%d)", name, s.table, c.real)
		}
		c.names = namesOf(append(enums[i], sets[i]...), cs)
		_, length := realType(t.ColumnType[i], t.ColumnMeta[i])
		form, typ := c.describe(length)
		s.columns = append(s.columns, c)
		s.table.Columns = append(s.table.Columns, cdc.Column{Name: name, Form: form, Type: typ})
		s.foreign = s.foreign || form == cdc.FormForeign
	}
	return s, nil
}

// setFull is what to do about rows that were logged with less than they need.
func setFull(setting string) string {
	return "SET PERSIST " + setting + " = FULL (on MariaDB SET GLOBAL, and the same in the server's configuration)"
}

func namesOf(names []string, cs mysql.Charset) []string {
	if cs == mysql.CharsetLatin1 {
		for i, name := range names {
			names[i] = string(appendLatin1(nil, []byte(name)))
		}
	}
	return names
}

// rows is the body of an event of inserted rows, cut open.
type rows struct {
	data  []byte // row images, one behind the other
	nulls int    // bytes of each image's bitmap of NULLs
}

// openRows reads what precedes the images: table id (6), flags (2), in version 2 extra data behind its length
// (2, counting itself), the number of columns, and the bitmap of those that are there.
func openRows(e event, s *schema) (r rows, err error) {
	defer recovered(&err)
	b := e.body()
	off := 8
	if e.kind() == replication.WRITE_ROWS_EVENTv2 {
		if len(b) < 10 {
			return rows{}, fmt.Errorf("decode rows of %s: %w", s.table, errTruncated)
		}
		off += int(binary.LittleEndian.Uint16(b[8:]))
	}
	if off >= len(b) {
		return rows{}, fmt.Errorf("decode rows of %s: %w", s.table, errTruncated)
	}
	count, _, n := gomysql.LengthEncodedInt(b[off:])
	off += n
	bitmap := (len(s.columns) + 7) / 8
	if count != uint64(len(s.columns)) || off+bitmap > len(b) {
		return rows{}, fmt.Errorf("rows of %s have %d columns, their table map %d", s.table, count, len(s.columns))
	}
	for i := range s.columns {
		if b[off+i/8]&(1<<(i%8)) == 0 {
			return rows{}, content("row_image", setFull("binlog_row_image"),
				"rows of %s were logged without column %s: binlog_row_image of the server, or of the session that wrote them, was not FULL", s.table, s.table.Columns[i].Name)
		}
	}
	data := b[off+bitmap:]
	if e.kind() == replication.MARIADB_WRITE_ROWS_COMPRESSED_EVENT_V1 {
		// The size of the rows is in one to seven bytes, and go-mysql trusts it. They are at most 1,032 times as large as what holds them.
		if len(data) == 0 {
			return rows{}, fmt.Errorf("decode rows of %s: %w", s.table, errTruncated)
		}
		size := 1 + int(data[0]&7)
		if len(data) < size || gomysql.BFixedLengthInt(data[1:size])/1032 > uint64(len(data)) {
			return rows{}, fmt.Errorf("decode compressed rows of %s: %w", s.table, errMalformed)
		}
		if data, err = gomysql.DecompressMariadbData(data); err != nil {
			return rows{}, fmt.Errorf("decode compressed rows of %s: %w", s.table, err)
		}
	}
	return rows{data: data, nulls: bitmap}, nil
}

// next appends the next row's values to arena and their places to spans. It returns what is left.
func (s *schema) next(r rows, arena []byte, spans []cdc.Span) (rows, []byte, []cdc.Span, error) {
	if len(r.data) < r.nulls {
		return r, arena, spans, fmt.Errorf("decode rows of %s: %w", s.table, errTruncated)
	}
	nulls, data := r.data[:r.nulls], r.data[r.nulls:]
	for i := range s.columns {
		if nulls[i/8]&(1<<(i%8)) != 0 {
			spans = append(spans, cdc.Span{Len: -1})
			continue
		}
		start := len(arena)
		var n int
		arena, n = s.columns[i].value(arena, data)
		if n < 0 {
			return r, arena, spans, fmt.Errorf("decode column %s of %s: %w", s.table.Columns[i].Name, s.table, errMalformed)
		}
		data = data[n:]
		spans = append(spans, cdc.Span{Off: int32(start), Len: int32(len(arena) - start)})
	}
	r.data = data
	return r, arena, spans, nil
}
