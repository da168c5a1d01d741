package binlog

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/go-mysql-org/go-mysql/replication"
)

// # Rows events in fragments
//
// MariaDB 12.3 and newer write a rows event that is larger than binlog_row_event_fragment_threshold as several events of another kind.
// Their data, one behind the other, is the whole event with its header. Each has the number of fragments and its own number, from 1 on;
// the first one also has the size of the whole. Nothing stands between them.
//
// Source: PARTIAL_ROW_DATA_EVENT in MariaDB's description of the replication protocol. The tests have no server that writes it.

// partialRows is the kind of a fragment. go-mysql does not know it.
const partialRows replication.EventType = 172

// fragment is a part of a rows event.
type fragment struct {
	number, of uint32
	size       uint64 // of the whole event; 0: not given
	data       []byte
}

// sizeGiven is a flag of the first fragment (FL_ORIG_EVENT_SIZE).
const sizeGiven = 1

func (e event) fragment() (f fragment, err error) {
	b := e.body()
	if len(b) < 9 {
		return f, fmt.Errorf("read binlog: fragment of a rows event: %w", errTruncated)
	}
	f = fragment{of: binary.LittleEndian.Uint32(b), number: binary.LittleEndian.Uint32(b[4:]), data: b[9:]}
	if b[8]&sizeGiven == 0 {
		return f, nil
	}
	if len(f.data) < 8 {
		return f, fmt.Errorf("read binlog: fragment of a rows event: %w", errTruncated)
	}
	f.size, f.data = binary.LittleEndian.Uint64(f.data), f.data[8:]
	return f, nil
}

// rows returns a rows event, or the beginning of one if e is its first fragment.
func (e event) rows() (event, bool) {
	if e.kind() == partialRows {
		f, err := e.fragment()
		if err != nil || f.number != 1 || len(f.data) < fragmentHead {
			return e, false
		}
		e = event{f.data}
	}
	switch e.kind() { //nolint:exhaustive // the rest has no rows
	case replication.WRITE_ROWS_EVENTv1, replication.UPDATE_ROWS_EVENTv1, replication.DELETE_ROWS_EVENTv1,
		replication.WRITE_ROWS_EVENTv2, replication.UPDATE_ROWS_EVENTv2, replication.DELETE_ROWS_EVENTv2, replication.PARTIAL_UPDATE_ROWS_EVENT,
		replication.MARIADB_WRITE_ROWS_COMPRESSED_EVENT_V1, replication.MARIADB_UPDATE_ROWS_COMPRESSED_EVENT_V1, replication.MARIADB_DELETE_ROWS_COMPRESSED_EVENT_V1:
		return e, true
	}
	return e, false
}

// fragmentHead is what the first fragment must hold: the header of the rows event, and its table.
const fragmentHead = eventHeader + 8

// fragmented is a rows event of which some fragments have come. The zero value is none.
type fragmented struct {
	come, of uint32
	size     uint64 // 0: not given
	length   uint64 // of what has come
	skip     bool   // only the head is needed
	raw      []byte
}

// add takes the next fragment in. wanted says of the head whether all of the rows are needed.
func (p *fragmented) add(f fragment, wanted func(event) bool) error {
	if f.number == 1 && p.come == 0 {
		if len(f.data) < fragmentHead {
			return fmt.Errorf("read binlog: fragment of a rows event: %w", errTruncated)
		}
		*p = fragmented{of: f.of, size: f.size, skip: !wanted(event{f.data})}
	}
	if f.number != p.come+1 || f.of != p.of || f.number > f.of {
		return fmt.Errorf("read binlog: fragment %d of %d of a rows event follows fragment %d of %d", f.number, f.of, p.come, p.of)
	}
	p.come = f.number
	p.length += uint64(len(f.data))
	most := uint64(math.MaxUint32)
	if p.size > 0 {
		most = min(most, p.size)
	}
	if p.length > most {
		return fmt.Errorf("read binlog: fragments of a rows event have more than its %d bytes", most)
	}
	if p.skip {
		f.data = f.data[:min(len(f.data), fragmentHead-len(p.raw))]
	}
	p.raw = append(p.raw, f.data...)
	return nil
}

// whole returns the event once all fragments have come.
func (p *fragmented) whole() (e event, complete bool, err error) {
	if p.come < p.of {
		return event{}, false, nil
	}
	e = event{p.raw}
	if says := uint64(binary.LittleEndian.Uint32(e.raw[9:])); says != p.length || p.size > 0 && p.size != p.length {
		return event{}, false, fmt.Errorf("read binlog: fragments of a rows event have %d bytes, which has %d", p.length, max(says, p.size))
	}
	*p = fragmented{}
	return e, true, nil
}

// fragment takes a fragment in, and the rows event with the last one.
func (ss *session) fragment(ctx context.Context, e event) error {
	f, err := e.fragment()
	if err != nil {
		return err
	}
	err = ss.parts.add(f, func(head event) bool { return ss.tx.ours[head.tableID()] })
	if err != nil {
		return err
	}
	rows, complete, err := ss.parts.whole()
	if err != nil || !complete {
		return err
	}
	if _, ok := rows.rows(); !ok {
		return fmt.Errorf("read binlog: fragments make an event of kind %d, which has no rows", rows.kind())
	}
	return ss.take(ctx, rows)
}

// interrupted returns an error for an event that comes before the last fragment.
func (p *fragmented) interrupted(kind replication.EventType) error {
	if kind == partialRows || kind == replication.HEARTBEAT_EVENT {
		return nil
	}
	return fmt.Errorf("read binlog: event of kind %d follows fragment %d of %d of a rows event", kind, p.come, p.of)
}
