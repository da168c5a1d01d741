package mysql

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-mysql-org/go-mysql/mysql"
	"github.com/google/uuid"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// GTID names one transaction.
type GTID struct {
	// MySQL: the server's UUID, and a tag (8.3 and newer; empty without).
	SID uuid.UUID
	Tag mysql.Tag
	// MariaDB: domain and server, which is never 0 there (server_id is 1 or more); on MySQL both are 0.
	Domain, Server uint32
	// Number counts within the above, from 1.
	Number uint64
}

// Set is how far a log was read: MySQL keeps every transaction's number, in intervals; MariaDB the last
// one of each domain, in which numbers only grow. It belongs to one goroutine.
type Set interface {
	Add(GTID)
	// AddRun adds the transactions of one origin from the number first up to the last.
	AddRun(first uint64, last GTID)
	Clone() Set
	// covers says whether every transaction of o is in it.
	Covers(o Set) bool
	// Only returns the one transaction of the set.
	Only() GTID
	// Before returns a position whose next transaction is g; nil if there is none.
	Before(g GTID) Set
	// Without counts the transactions that are not in o.
	Without(o Set) uint64
	// LastOf returns the transaction that comes last if the server begins before g.
	LastOf(g GTID) GTID
	// String is the position's text, in one line, as the server would print it.
	String() string
}

// IntervalSet is MySQL's, "3E11FA47-...:1-5:7,..." in lower case.
type IntervalSet struct{ mysql.MysqlGTIDSet }

// Add implements [Set].
func (s IntervalSet) Add(g GTID) { s.AddRun(g.Number, g) }

// AddRun implements [Set].
func (s IntervalSet) AddRun(first uint64, r GTID) {
	if first > r.Number {
		return
	}
	tags := s.MysqlGTIDSet[r.SID]
	if tags == nil {
		tags = map[mysql.Tag]mysql.IntervalSlice{}
		s.MysqlGTIDSet[r.SID] = tags
	}
	tags[r.Tag] = inserted(tags[r.Tag], mysql.Interval{Start: int64(first), Stop: int64(r.Number) + 1})
}

// inserted puts x into intervals that are in order and apart, and joins it with those that it touches: every transaction does so,
// and sorting the whole set each time (Normalize) would take too long in a set with many gaps.
func inserted(set mysql.IntervalSlice, x mysql.Interval) mysql.IntervalSlice {
	from, _ := slices.BinarySearchFunc(set, x.Start, func(i mysql.Interval, start int64) int { return cmp.Compare(i.Stop, start) })
	to := from
	for ; to < len(set) && set[to].Start <= x.Stop; to++ {
		x.Start, x.Stop = min(x.Start, set[to].Start), max(x.Stop, set[to].Stop)
	}
	return slices.Replace(set, from, to, x)
}

// Clone implements [Set].
func (s IntervalSet) Clone() Set {
	c, _ := s.MysqlGTIDSet.Clone().(*mysql.MysqlGTIDSet)
	return IntervalSet{*c}
}

// Covers implements [Set].
func (s IntervalSet) Covers(o Set) bool {
	other, ok := o.(IntervalSet)
	return ok && s.Contain(&other.MysqlGTIDSet)
}

// Has reports whether a transaction is in it.
func (s IntervalSet) Has(g GTID) bool {
	intervals, n := s.MysqlGTIDSet[g.SID][g.Tag], int64(g.Number)
	i, _ := slices.BinarySearchFunc(intervals, n, func(x mysql.Interval, n int64) int { return cmp.Compare(x.Stop, n+1) })
	return i < len(intervals) && intervals[i].Start <= n
}

func (s IntervalSet) String() string { return s.MysqlGTIDSet.String() }

// mariadbSet is MariaDB's, "0-1-42,1-1-7": domain, the server that wrote last, its number.
type mariadbSet map[uint32]GTID

func (s mariadbSet) Add(g GTID) { s[g.Domain] = g }

func (s mariadbSet) AddRun(_ uint64, last GTID) { s[last.Domain] = last }

func (s mariadbSet) Clone() Set { return maps.Clone(s) }

func (s mariadbSet) Covers(o Set) bool {
	other, ok := o.(mariadbSet)
	if !ok {
		return false
	}
	for domain, g := range other {
		if s[domain].Number < g.Number {
			return false
		}
	}
	return true
}

func (s mariadbSet) Only() (g GTID) {
	for _, last := range s {
		g = last
	}
	return g
}

func (s mariadbSet) Before(g GTID) Set {
	if g.Number < 2 || s[g.Domain].Number < g.Number {
		return nil
	}
	before := maps.Clone(s)
	before[g.Domain] = GTID{Domain: g.Domain, Server: g.Server, Number: g.Number - 1}
	return before
}

func (s mariadbSet) Without(o Set) (n uint64) {
	other, _ := o.(mariadbSet)
	for domain, g := range s {
		n += g.Number - min(g.Number, other[domain].Number)
	}
	return n
}

func (s mariadbSet) LastOf(g GTID) GTID { return s[g.Domain] }

func (s mariadbSet) String() string {
	var b strings.Builder
	for i, domain := range slices.Sorted(maps.Keys(s)) {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(s[domain].mariadb())
	}
	return b.String()
}

func (g GTID) mariadb() string { return fmt.Sprintf("%d-%d-%d", g.Domain, g.Server, g.Number) }

// OnMariaDB reports whether it is one of MariaDB.
func (g GTID) OnMariaDB() bool { return g.Server != 0 }

// String is the transaction's name as its server prints it.
func (g GTID) String() string {
	switch {
	case g.Number == 0:
		return ""
	case g.OnMariaDB():
		return g.mariadb()
	case g.Tag != mysql.Tag{}:
		return fmt.Sprintf("%s:%s:%d", g.SID, g.Tag, g.Number)
	}
	return fmt.Sprintf("%s:%d", g.SID, g.Number)
}

// ParseSet reads a position; the empty text is the empty set, before the first transaction.
func ParseSet(f cdc.Flavor, text string) (Set, error) {
	text = strings.NewReplacer("\n", "", "\r", "", " ", "").Replace(text)
	if f == cdc.MariaDB {
		return parseMariaDB(text)
	}
	if text == "" {
		return IntervalSet{mysql.NewMysqlGTIDSet()}, nil
	}
	parsed, err := mysql.ParseMysqlGTIDSet(text)
	if err != nil {
		return nil, cdc.Fixable("write it as `cdc-relay position show` prints it, such as 3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5", "%q is not a GTID set of MySQL", text)
	}
	set, _ := parsed.(*mysql.MysqlGTIDSet)
	return IntervalSet{*set}, nil
}

func parseMariaDB(text string) (Set, error) {
	set := mariadbSet{}
	for part := range strings.SplitSeq(text, ",") {
		if part == "" {
			continue
		}
		fields := strings.Split(part, "-")
		if len(fields) != 3 {
			return nil, notMariaDB(text)
		}
		domain, derr := strconv.ParseUint(fields[0], 10, 32)
		server, serr := strconv.ParseUint(fields[1], 10, 32)
		number, nerr := strconv.ParseUint(fields[2], 10, 64)
		_, twice := set[uint32(domain)]
		if derr != nil || serr != nil || nerr != nil || twice {
			return nil, notMariaDB(text)
		}
		set[uint32(domain)] = GTID{Domain: uint32(domain), Server: uint32(server), Number: number}
	}
	return set, nil
}

func notMariaDB(text string) error {
	return cdc.Fixable("write it as `cdc-relay position show` prints it, such as 0-1-42, with one entry for each domain", "%q is not a GTID position of MariaDB", text)
}

// ParsePosition checks a position that a person typed and returns it in its stored form.
func ParsePosition(f cdc.Flavor, p cdc.Position) (cdc.Position, error) {
	set, err := ParseSet(f, string(p))
	if err != nil {
		return "", err
	}
	return cdc.Position(set.String()), nil
}

// Only implements [Set].
func (s IntervalSet) Only() (g GTID) {
	for sid, tags := range s.MysqlGTIDSet {
		for tag, intervals := range tags {
			g = GTID{SID: sid, Tag: tag, Number: uint64(intervals[0].Start)}
		}
	}
	return g
}

// Before implements [Set]. No origin is left without intervals: MySQL 9.7 crashes if a dump request has a tag with none.
func (s IntervalSet) Before(g GTID) Set {
	if !s.Has(g) {
		return nil
	}
	before := IntervalSet{mysql.NewMysqlGTIDSet()}
	for sid, tags := range s.MysqlGTIDSet {
		for tag, intervals := range tags {
			for _, x := range intervals {
				first, last := uint64(x.Start), uint64(x.Stop)-1
				if sid == g.SID && tag == g.Tag && first <= g.Number && g.Number <= last {
					before.AddRun(first, GTID{SID: sid, Tag: tag, Number: g.Number - 1})
					first = g.Number + 1
				}
				before.AddRun(first, GTID{SID: sid, Tag: tag, Number: last})
			}
		}
	}
	return before
}

// Without implements [Set].
func (s IntervalSet) Without(o Set) (n uint64) {
	other, _ := o.(IntervalSet)
	for sid, tags := range s.MysqlGTIDSet {
		for tag, intervals := range tags {
			n += beyond(intervals, other.MysqlGTIDSet[sid][tag])
		}
	}
	return n
}

// LastOf implements [Set].
func (IntervalSet) LastOf(g GTID) GTID { return g }

// beyond counts the numbers in a that are not in b. Intervals end before their Stop, and those of a set do not
// overlap.
func beyond(a, b mysql.IntervalSlice) uint64 {
	var n int64
	for _, x := range a {
		n += x.Stop - x.Start
		for _, y := range b {
			n -= max(0, min(x.Stop, y.Stop)-max(x.Start, y.Start))
		}
	}
	return uint64(n)
}
