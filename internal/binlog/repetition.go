package binlog

import "github.com/cdc-relay/cdc-relay/internal/cdc"

// repetition follows the transactions that a server sends again:
//
//	repeating ─► repeated ─► passed
//	    └───────────────────────▲
type repetition struct {
	from   gtidSet // they are in it
	first  gtid
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
func (r *repetition) begin(id gtid) {
	r.begun++
	switch {
	case r.state != repeating || !r.expects(id):
		r.state = passed
	case r.counted == 0 && id == lastOf(r.from, r.first) || r.counted > 0 && r.begun == r.counted:
		r.state = repeated
	}
}

func (r *repetition) expects(id gtid) bool {
	if r.counted == 0 {
		return id.upTo(lastOf(r.from, r.first), r.flavor)
	}
	return (r.begun > 1 || id == r.first) && (r.begun < r.counted || id == lastOf(r.from, id))
}

// lastOf returns the transaction of from that comes last if the server begins before g.
func lastOf(from gtidSet, g gtid) gtid {
	if set, ok := from.(mariadbSet); ok {
		return set[g.domain]
	}
	return g
}

// upTo reports whether the server sends g no later than last, if it begins before last or at a transaction before it.
func (g gtid) upTo(last gtid, f cdc.Flavor) bool {
	return g == last || f == cdc.MariaDB && g.domain == last.domain && g.number <= last.number
}
