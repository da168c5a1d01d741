package binlog

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"net"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"
)

const (
	// chunkSize is how much one read may take from the socket.
	chunkSize = 256 << 10
	// packetHeader is a length of three bytes and a sequence number.
	packetHeader = 4
)

// dump is a connection on which a server sends its binlog. It cuts what it reads into events.
type dump struct {
	conn   net.Conn
	server string // identity of the server
	dialer *dialer
	parser *replication.BinlogParser

	buf  []byte // buf[r:w] is read and not cut yet
	r, w int
	long []byte // the beginning of an event of more than one packet
	read time.Time

	checksums bool // events end with one; see format
	place     place
}

func newDump(conn net.Conn, server string, by *dialer) *dump {
	d := &dump{conn: conn, server: server, dialer: by, parser: replication.NewBinlogParser(), buf: make([]byte, chunkSize), read: time.Now()}
	d.parser.SetFlavor(string(by.flavor))
	return d
}

// damage is what cannot be read of the packets.
type damage struct{ error }

func (e *damage) Unwrap() error { return e.error }

// await reads until the server has sent an event that tells nothing yet, or refused.
func (d *dump) await(ctx context.Context) error {
	e, err := d.nextEvent(ctx)
	if err == nil && e.kind() != replication.ROTATE_EVENT { // the server names its file first
		err = fmt.Errorf("read binlog: it begins with an event of kind %d", e.kind())
	}
	return err
}

// nextEvent waits for the next event, until ctx's deadline: a server that searches a large file says nothing meanwhile.
func (d *dump) nextEvent(ctx context.Context) (event, error) {
	deadline, _ := ctx.Deadline()
	if err := d.conn.SetReadDeadline(deadline); err != nil {
		return event{}, fmt.Errorf("read binlog: %w", err)
	}
	packet, err := d.packet()
	for packet == nil && err == nil {
		if err = d.fill(); err == nil {
			packet, err = d.packet()
		}
	}
	if err != nil {
		return event{}, err
	}
	return d.event(packet)
}

// packet returns the next whole one, or nil. It is valid until the next fill.
func (d *dump) packet() ([]byte, error) {
	for {
		have := d.buf[d.r:d.w]
		if len(have) < packetHeader {
			return nil, nil
		}
		size := int(have[0]) | int(have[1])<<8 | int(have[2])<<16
		if len(have) < packetHeader+size {
			return nil, nil
		}
		body := have[packetHeader : packetHeader+size]
		d.r += packetHeader + size
		if size == gomysql.MaxPayloadLen { // more follows
			d.long = append(d.long, body...)
			continue
		}
		if d.long != nil {
			body = append(d.long, body...)
			d.long = nil
		}
		if len(body) == 0 {
			return nil, &damage{errors.New("read binlog: empty packet")}
		}
		return body, nil
	}
}

// event unwraps a packet: a byte 0 and the event, an error, or the end.
func (d *dump) event(packet []byte) (event, error) {
	switch packet[0] {
	case gomysql.OK_HEADER:
		e := event{packet[1:]}
		if len(e.raw) < eventHeader || int(binary.LittleEndian.Uint32(e.raw[9:])) != len(e.raw) {
			return event{}, &damage{fmt.Errorf("read binlog: %w", errTruncated)}
		}
		size := len(e.raw)
		e, err := d.checked(e)
		if err == nil {
			d.place.pass(e, size)
		}
		return e, err
	case gomysql.ERR_HEADER:
		if len(packet) < 9 {
			return event{}, &damage{fmt.Errorf("read binlog: %w", errTruncated)}
		}
		return event{}, d.dialer.dumpError(binary.LittleEndian.Uint16(packet[1:]), string(packet[9:]))
	case gomysql.EOF_HEADER:
		return event{}, errEnded
	}
	return event{}, &damage{fmt.Errorf("read binlog: packet of unknown kind %d", packet[0])}
}

// checked takes an event's checksum off, once the server has said that there are any.
func (d *dump) checked(e event) (event, error) {
	if !d.checksums || e.kind() == replication.FORMAT_DESCRIPTION_EVENT {
		return e, nil
	}
	n := len(e.raw) - replication.BinlogChecksumLength
	if n < eventHeader || crc32.ChecksumIEEE(e.raw[:n]) != binary.LittleEndian.Uint32(e.raw[n:]) {
		return event{}, &damage{errors.New("read binlog: an event's checksum is wrong")}
	}
	binary.LittleEndian.PutUint32(e.raw[9:], uint32(n))
	return event{e.raw[:n]}, nil
}

// fill reads what the socket has, at least one byte, or fails at the deadline.
func (d *dump) fill() error {
	if d.r == d.w {
		d.r, d.w = 0, 0
		if len(d.buf) > chunkSize { // for one huge event
			d.buf = make([]byte, chunkSize)
		}
	}
	if d.w == len(d.buf) {
		if d.r > 0 {
			d.w = copy(d.buf, d.buf[d.r:d.w])
			d.r = 0
		} else {
			grown := make([]byte, min(2*len(d.buf), packetHeader+gomysql.MaxPayloadLen))
			d.w = copy(grown, d.buf[:d.w])
			d.buf = grown
		}
	}
	n, err := d.conn.Read(d.buf[d.w:])
	d.w += n
	if n > 0 {
		d.read = time.Now()
	}
	if err != nil {
		return fmt.Errorf("read binlog: %w", err)
	}
	return nil
}

// format takes the description of a log file in: from here on its events carry checksums or none. They are looked
// at where events are cut, so the parser is told that there are none.
func (d *dump) format(e event) error {
	parsed, err := d.parse(e)
	if err != nil {
		return err
	}
	if f, ok := parsed.Event.(*replication.FormatDescriptionEvent); ok {
		d.checksums = f.ChecksumAlgorithm == replication.BINLOG_CHECKSUM_ALG_CRC32
		f.ChecksumAlgorithm = replication.BINLOG_CHECKSUM_ALG_OFF
	}
	return nil
}

// parse has go-mysql parse an event. What it keeps, the description of the binlog file and table maps, points into the
// bytes that it is given, so these are its own.
func (d *dump) parse(e event) (parsed *replication.BinlogEvent, err error) {
	defer recovered(&err)
	raw := e.raw
	if kind := e.kind(); kind == replication.FORMAT_DESCRIPTION_EVENT || kind == replication.TABLE_MAP_EVENT {
		raw = bytes.Clone(raw)
	}
	parsed, err = d.parser.Parse(raw)
	if bad, ok := errors.AsType[*replication.EventError](err); ok {
		// Not its own text: that quotes the whole event, and rows must not be logged.
		return nil, fmt.Errorf("read binlog: event of kind %d that ends at %d: %s", bad.Header.EventType, bad.Header.LogPos, bad.Err)
	}
	if err != nil {
		return nil, fmt.Errorf("read binlog: %w", err)
	}
	return parsed, nil
}

// recovered makes an error of a panic: go-mysql trusts lengths that it reads.
func recovered(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("read binlog: damaged event: %v", r)
	}
}
