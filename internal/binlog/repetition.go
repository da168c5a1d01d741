package binlog

import (
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/mysql"
)

// repetition follows the transactions that a server sends again:
//
//	repeating ─► repeated ─► passed
//	    └───────────────────────▲
type repetition struct {
	from   mysql.Set // they are in it
	first  mysql.GTID
	flavor cdc.Flavor
	// counted is how many they are; 0: the server was asked by GTID.
	counted, begun uint32
	state          repeatState
}

type repeatState int

const (
	repeating repeatState = iota
	// repeated: the last one has begun.
	repeated
	// passed: one has begun that is to be handed on, or should not be here.
	passed
)

// begin takes the beginning of a transaction in.
func (r *repetition) begin(id mysql.GTID) {
	r.begun++
	switch {
	case r.state != repeating || !r.expects(id):
		r.state = passed
	case r.counted == 0 && id == mysql.LastOf(r.from, r.first) || r.counted > 0 && r.begun == r.counted:
		r.state = repeated
	}
}

func (r *repetition) expects(id mysql.GTID) bool {
	if r.counted == 0 {
		return upTo(id, mysql.LastOf(r.from, r.first), r.flavor)
	}
	return (r.begun > 1 || id == r.first) && (r.begun < r.counted || id == mysql.LastOf(r.from, id))
}

// upTo reports whether the server sends g no later than last, if it begins before last or at a transaction before it.
func upTo(g, last mysql.GTID, f cdc.Flavor) bool {
	return g == last || f == cdc.MariaDB && g.Domain == last.Domain && g.Number <= last.Number
}
