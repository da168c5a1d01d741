package binlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"
	"github.com/klauspost/compress/zstd"
)

// payload unpacks compressed transactions as a stream: unpacked at once, one of a million rows would take most of
// a gigabyte.
type payload struct {
	decoder *zstd.Decoder
	raw     []byte
}

// maxZstdWindow bounds what a frame may ask for; the server's frames ask for the window of their level, 8 MiB at
// the highest that is usual.
const maxZstdWindow = 128 << 20

// each calls f for every event of a TRANSACTION_PAYLOAD_EVENT's body. The event is f's only during the call.
func (p *payload) each(body []byte, f func(event) error) error {
	compressed, err := openPayload(body)
	if err != nil {
		return err
	}
	if p.decoder == nil {
		p.decoder, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxZstdWindow))
		if err != nil {
			return fmt.Errorf("unpack a compressed transaction: %w", err)
		}
	}
	if err := p.decoder.Reset(bytes.NewReader(compressed)); err != nil {
		return fmt.Errorf("unpack a compressed transaction: %w", err)
	}
	for {
		e, err := p.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("unpack a compressed transaction: %w", err)
		}
		if err := f(e); err != nil {
			return err
		}
	}
}

// next returns io.EOF behind the last event.
func (p *payload) next() (event, error) {
	if cap(p.raw) < eventHeader {
		p.raw = make([]byte, 16<<10)
	}
	if _, err := io.ReadFull(p.decoder, p.raw[:eventHeader]); err != nil {
		return event{}, err
	}
	size := int(binary.LittleEndian.Uint32(p.raw[9:]))
	if size < eventHeader {
		return event{}, errTruncated
	}
	if size > cap(p.raw) {
		grown := make([]byte, size)
		copy(grown, p.raw[:eventHeader])
		p.raw = grown
	}
	raw := p.raw[:size]
	if _, err := io.ReadFull(p.decoder, raw[eventHeader:]); err != nil {
		return event{}, errTruncated
	}
	return event{raw}, nil
}

// openPayload reads the fields before the compressed octets: a kind, a length and a value each, all of them
// numbers, until the kind 0.
func openPayload(body []byte) ([]byte, error) {
	for off := 0; off < len(body); {
		kind, _, n := mysql.LengthEncodedInt(body[off:])
		off += n
		if kind == replication.OTW_PAYLOAD_HEADER_END_MARK {
			return body[off:], nil
		}
		if off >= len(body) {
			break
		}
		size, _, n := mysql.LengthEncodedInt(body[off:])
		off += n
		if size > uint64(len(body)-off) {
			break
		}
		if kind == replication.OTW_PAYLOAD_COMPRESSION_TYPE_FIELD {
			if method, _, _ := mysql.LengthEncodedInt(body[off:]); method != replication.ZSTD {
				return nil, fmt.Errorf("unpack a compressed transaction: compression %d is not known here", method)
			}
		}
		off += int(size)
	}
	return nil, fmt.Errorf("unpack a compressed transaction: %w", errTruncated)
}

func (p *payload) close() {
	if p.decoder != nil {
		p.decoder.Close()
		p.decoder = nil
	}
}
