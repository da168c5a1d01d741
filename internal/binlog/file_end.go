package binlog

import (
	"encoding/binary"
	"strconv"
	"strings"

	"github.com/go-mysql-org/go-mysql/replication"
)

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
