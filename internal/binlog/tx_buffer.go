package binlog

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// heldBytes is how much of a transaction stays in memory; what is more goes into a temporary file.
const heldBytes = 4 << 20

// txBuffer keeps the events of one transaction until it commits: the binlog also carries rows that are rolled back
// afterwards (MariaDB, and wherever another engine than InnoDB took part). Events are kept as they came, one
// behind the other, each behind its length of four bytes: first in the file, then in memory.
type txBuffer struct {
	buf   []byte
	limit int // of buf; set by tests
	file  *os.File
	filed int64 // bytes of file that count
}

// size is where the next event will stand; see rewind.
func (h *txBuffer) size() int64 { return h.filed + int64(len(h.buf)) }

// add copies an event.
func (h *txBuffer) add(raw []byte) error {
	h.buf = binary.LittleEndian.AppendUint32(h.buf, uint32(len(raw)))
	h.buf = append(h.buf, raw...)
	if len(h.buf) <= h.limit {
		return nil
	}
	if h.file == nil {
		if err := h.open(); err != nil {
			return err
		}
	}
	if _, err := h.file.WriteAt(h.buf, h.filed); err != nil {
		return spoolError(err)
	}
	h.filed += int64(len(h.buf))
	h.buf = h.buf[:0]
	if cap(h.buf) > 2*h.limit { // one huge event
		h.buf = nil
	}
	return nil
}

// open makes a file without a name: it is gone with the process.
func (h *txBuffer) open() error {
	f, err := os.CreateTemp("", "cdc-relay-transaction-*")
	if err == nil {
		h.file = f
		err = os.Remove(f.Name())
	}
	if err != nil {
		return spoolError(err)
	}
	return nil
}

// spoolError is retried: nothing of the transaction was handed on yet.
func spoolError(err error) error {
	return cdc.Fixable("give the temporary directory (TMPDIR names it) free space, and let the relay write there", "keep a large transaction in a temporary file: %w", err)
}

// rewind forgets what was added since size was to.
func (h *txBuffer) rewind(to int64) {
	if to >= h.filed {
		h.buf = h.buf[:to-h.filed]
		return
	}
	h.buf, h.filed = h.buf[:0], to
}

// each calls f for every event, in order. The event is f's only during the call.
func (h *txBuffer) each(f func(raw []byte) error) error {
	if h.filed > 0 {
		if err := eachFiled(io.NewSectionReader(h.file, 0, h.filed), f); err != nil {
			return err
		}
	}
	for rest := h.buf; len(rest) > 0; {
		n := binary.LittleEndian.Uint32(rest)
		if err := f(rest[4 : 4+n]); err != nil {
			return err
		}
		rest = rest[4+n:]
	}
	return nil
}

func eachFiled(r io.Reader, f func(raw []byte) error) error {
	in := bufio.NewReaderSize(r, 256<<10)
	var head [4]byte
	var raw []byte
	for {
		_, err := io.ReadFull(in, head[:])
		if errors.Is(err, io.EOF) {
			return nil
		}
		n := int(binary.LittleEndian.Uint32(head[:]))
		if cap(raw) < n {
			raw = make([]byte, n)
		}
		if err == nil {
			_, err = io.ReadFull(in, raw[:n])
		}
		if err != nil {
			return cdc.Stop(cdc.ClassRuntime, "temporary_file", fmt.Errorf("read a large transaction from its temporary file: %w", err),
				"check the file system of the temporary directory (TMPDIR names it), then start again")
		}
		if err := f(raw[:n]); err != nil {
			return err
		}
	}
}

// reset forgets everything, and gives the file back.
func (h *txBuffer) reset() {
	h.buf, h.filed = h.buf[:0], 0
	if h.file != nil {
		_ = h.file.Close()
		h.file = nil
	}
}
