package binlog

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/go-mysql-org/go-mysql/replication"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// # Where a start begins in the file
//
// A server that is asked for what follows a GTID set reads the whole file in which that is, 0.4 s for a gigabyte. So the checkpoint also
// says where the stamp's transaction stood in which file of which server: a hint. It only makes a start faster:
//
//  1. It is written by the stream that read the stamp's transaction, and is of no use without a stamp. So whatever moves the position by
//     other means drops it, and all that stands before the place is in the position.
//  2. It is followed only on the server that it names, asked on the connection that sends the binlog: another one may have transactions
//     before the same place that are in no position. And only if the first transaction there is the stamp's, with its time. In all
//     other cases the server is asked by GTID, and no start is refused for a hint.
//  3. MySQL leaves out what is in the position, as it does without a hint. MariaDB takes either a place or GTIDs: there as many
//     transactions are left out as followed the stamp's when the position was noted, and the last of them must be the position's last
//     one of its domain. Their numbers would not tell: without gtid_strict_mode they may go down.

// hint is where the stamp's transaction begins. The zero value is none.
type hint struct {
	server string // see identity; not ""
	file   string
	offset uint32 // of its GTID event
	// behind is how many transactions follow it that are in the position too.
	behind uint32
}

// text is the hint's form in a checkpoint.
func (h hint) text() string {
	if h.file == "" {
		return ""
	}
	return fmt.Sprintf("%s/%s/%d/%d", h.server, h.file, h.offset, h.behind)
}

// parseHint returns none for a text that it does not know.
func parseHint(text string) hint {
	fields := strings.Split(text, "/")
	if len(fields) != 4 {
		return hint{}
	}
	offset, oerr := strconv.ParseUint(fields[2], 10, 32)
	behind, berr := strconv.ParseUint(fields[3], 10, 32)
	if oerr != nil || berr != nil || fields[0] == "" || fields[1] == "" {
		return hint{}
	}
	return hint{fields[0], fields[1], uint32(offset), uint32(behind)}
}

// again is how many transactions a server sends again that begins at the hint; 0 without one.
func (h hint) again(f cdc.Flavor) uint32 {
	switch {
	case h.file == "":
		return 0
	case f == cdc.MariaDB:
		return 1 + h.behind
	}
	return 1
}

// place is where the stream stands in the server's files.
type place struct {
	fileEnd

	at uint64 // where the last event begins; 0: not known
}

// checksumSize is what a server may leave out of an event that has a checksum in the file.
const checksumSize = replication.BinlogChecksumLength

// pass notes an event of a size, with its checksum. Where it begins is known only if that is where the one before it ended: a server
// leaves out what it was not asked for.
func (p *place) pass(e event, size int) {
	before := p.fileEnd
	p.fileEnd.pass(e)
	p.at = 0
	if start := p.end - uint64(size); p.file == before.file && before.end > 0 && (start == before.end || start == before.end+checksumSize) {
		p.at = before.end
	}
}

// hint returns where the last event begins on this server, as a hint; none if that is not known, or is not what a server can be asked for.
func (p *place) hint(server string) hint {
	if p.at == 0 || p.at > math.MaxUint32 || server == "" {
		return hint{}
	}
	return hint{server: server, file: p.file, offset: uint32(p.at)}
}

// fileEnd is an end in a binlog: a file, and an offset in it, also beyond 4 GiB.
type fileEnd struct {
	file string
	end  uint64
}

// pass moves to the end of an event that the server sent.
func (p *fileEnd) pass(e event) {
	switch e.kind() { //nolint:exhaustive // the rest is in the file
	case replication.ROTATE_EVENT: // the last one of a file, and one that the server makes up before the first event of each
		if body := e.body(); len(body) > rotateHeader {
			*p = fileEnd{file: string(body[rotateHeader:])}
		}
		return
	case replication.HEARTBEAT_EVENT, replication.HEARTBEAT_LOG_EVENT_V2:
		return
	}
	// An event has the low half of the offset, or 0 within a transaction of MariaDB 11.4 and newer. In a transaction of more than
	// 4 GiB the upper half may be too low. The end is still behind all that came before the transaction, and the server
	// commits it and what is behind it in this file at once, because such a file is full.
	if at := binary.LittleEndian.Uint32(e.raw[13:]); at != 0 && !e.artificial() {
		p.end += uint64(at - uint32(p.end))
	}
}

// rotateHeader is the offset before the name of the file.
const rotateHeader = 8

// number is what orders the files; 0: it is not known.
func (p fileEnd) number() int {
	n, _ := strconv.Atoi(p.file[strings.LastIndexByte(p.file, '.')+1:])
	return n
}
