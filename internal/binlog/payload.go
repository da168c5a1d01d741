package binlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
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
			if cap(p.raw) > chunkSize { // for one huge event
				p.raw = nil
			}
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
	p.raw = slices.Grow(p.raw[:eventHeader], size-eventHeader)[:size]
	if _, err := io.ReadFull(p.decoder, p.raw[eventHeader:]); err != nil {
		return event{}, errTruncated
	}
	return event{p.raw}, nil
}

// openPayload reads the fields before the compressed bytes: a kind, a length and a value each, all of them
// numbers, until the kind 0.
func openPayload(body []byte) (compressed []byte, err error) {
	defer recovered(&err)
	for off := 0; off < len(body); {
		kind, _, n := gomysql.LengthEncodedInt(body[off:])
		off += n
		if n > 0 && kind == replication.OTW_PAYLOAD_HEADER_END_MARK {
			return body[off:], nil
		}
		size, _, m := gomysql.LengthEncodedInt(body[off:])
		off += m
		if n == 0 || m == 0 || size > uint64(len(body)-off) {
			break
		}
		if kind == replication.OTW_PAYLOAD_COMPRESSION_TYPE_FIELD {
			if method, _, _ := gomysql.LengthEncodedInt(body[off:]); method != replication.ZSTD {
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
