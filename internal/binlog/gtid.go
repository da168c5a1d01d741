package binlog

import (
	"bytes"
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

// gtid names one transaction.
type gtid struct {
	// MySQL: the server's UUID, and a tag (8.3 and newer; empty without).
	sid uuid.UUID
	tag mysql.Tag
	// MariaDB: domain and server.
	domain, server uint32
	// number counts within the above, from 1.
	number uint64
}

// run is GTIDs of one origin without a gap, up to and with gtid. On MariaDB, where a position is the last GTID of each
// domain, it is all of a domain.
type run struct {
	gtid

	first uint64
}

// extend adds g where it follows.
func (r *run) extend(f cdc.Flavor, g gtid) bool {
	switch {
	case f == cdc.MariaDB && r.domain == g.domain:
		r.gtid = g
	case f == cdc.MySQL && r.number+1 == g.number && r.sid == g.sid && r.tag == g.tag:
		r.number = g.number
	default:
		return false
	}
	return true
}

// joined returns the runs with those that follow one another made one.
func joined(f cdc.Flavor, runs []run) []run {
	slices.SortStableFunc(runs, func(a, b run) int { // on MariaDB it keeps the order within a domain
		return cmp.Or(cmp.Compare(a.domain, b.domain), bytes.Compare(a.sid[:], b.sid[:]), strings.Compare(a.tag.String(), b.tag.String()), firstOf(f, a, b))
	})
	n := 0
	for _, r := range runs[1:] {
		last := &runs[n]
		next := r.gtid
		if f == cdc.MySQL {
			next.number = r.first
		}
		if last.extend(f, next) {
			last.gtid = r.gtid
			continue
		}
		n++
		runs[n] = r
	}
	return runs[:n+1]
}

func firstOf(f cdc.Flavor, a, b run) int {
	if f == cdc.MariaDB {
		return 0
	}
	return cmp.Compare(a.first, b.first)
}

// gtidSet is how far a log was read: MySQL keeps every transaction's number, in intervals; MariaDB the last
// one of each domain, in which numbers only grow. It belongs to one goroutine.
type gtidSet interface {
	add(gtid)
	addRun(run)
	clone() gtidSet
	// covers says whether every transaction of o is in it.
	covers(o gtidSet) bool
	// String is the position's text, in one line, as the server would print it.
	String() string
}

// mysqlSet is MySQL's, "3E11FA47-...:1-5:7,..." in lower case.
type mysqlSet struct{ mysql.MysqlGTIDSet }

func (s mysqlSet) add(g gtid) { s.addRun(run{gtid: g, first: g.number}) }

func (s mysqlSet) addRun(r run) {
	tags := s.MysqlGTIDSet[r.sid]
	if tags == nil {
		tags = map[mysql.Tag]mysql.IntervalSlice{}
		s.MysqlGTIDSet[r.sid] = tags
	}
	tags[r.tag] = inserted(tags[r.tag], mysql.Interval{Start: int64(r.first), Stop: int64(r.number) + 1})
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

func (s mysqlSet) clone() gtidSet {
	c, _ := s.Clone().(*mysql.MysqlGTIDSet)
	return mysqlSet{*c}
}

func (s mysqlSet) covers(o gtidSet) bool {
	other, ok := o.(mysqlSet)
	return ok && s.Contain(&other.MysqlGTIDSet)
}

func (s mysqlSet) has(g gtid) bool {
	intervals, n := s.MysqlGTIDSet[g.sid][g.tag], int64(g.number)
	i, _ := slices.BinarySearchFunc(intervals, n, func(x mysql.Interval, n int64) int { return cmp.Compare(x.Stop, n+1) })
	return i < len(intervals) && intervals[i].Start <= n
}

func (s mysqlSet) String() string { return s.MysqlGTIDSet.String() }

// mariadbSet is MariaDB's, "0-1-42,1-1-7": domain, the server that wrote last, its number.
type mariadbSet map[uint32]gtid

func (s mariadbSet) add(g gtid) { s[g.domain] = g }

func (s mariadbSet) addRun(r run) { s[r.domain] = r.gtid }

func (s mariadbSet) clone() gtidSet { return maps.Clone(s) }

func (s mariadbSet) covers(o gtidSet) bool {
	other, ok := o.(mariadbSet)
	if !ok {
		return false
	}
	for domain, g := range other {
		if s[domain].number < g.number {
			return false
		}
	}
	return true
}

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

func (g gtid) mariadb() string { return fmt.Sprintf("%d-%d-%d", g.domain, g.server, g.number) }

// text is the transaction's name as its server prints it.
func (g gtid) text(f cdc.Flavor) string {
	switch {
	case g.number == 0:
		return ""
	case f == cdc.MariaDB:
		return g.mariadb()
	case g.tag != mysql.Tag{}:
		return fmt.Sprintf("%s:%s:%d", g.sid, g.tag, g.number)
	}
	return fmt.Sprintf("%s:%d", g.sid, g.number)
}

// parseSet reads a position; the empty text is the empty set, before the first transaction.
func parseSet(f cdc.Flavor, text string) (gtidSet, error) {
	text = strings.NewReplacer("\n", "", "\r", "", " ", "").Replace(text)
	if f == cdc.MariaDB {
		return parseMariaDB(text)
	}
	if text == "" {
		return mysqlSet{mysql.NewMysqlGTIDSet()}, nil
	}
	parsed, err := mysql.ParseMysqlGTIDSet(text)
	if err != nil {
		return nil, cdc.Fixable("write it as `cdc-relay position show` prints it, such as 3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5", "%q is not a GTID set of MySQL", text)
	}
	set, _ := parsed.(*mysql.MysqlGTIDSet)
	return mysqlSet{*set}, nil
}

func parseMariaDB(text string) (gtidSet, error) {
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
		set[uint32(domain)] = gtid{domain: uint32(domain), server: uint32(server), number: number}
	}
	return set, nil
}

func notMariaDB(text string) error {
	return cdc.Fixable("write it as `cdc-relay position show` prints it, such as 0-1-42, with one entry for each domain", "%q is not a GTID position of MariaDB", text)
}

// ParsePosition checks a position that a person typed and returns it in its stored form.
func ParsePosition(f cdc.Flavor, p cdc.Position) (cdc.Position, error) {
	set, err := parseSet(f, string(p))
	if err != nil {
		return "", err
	}
	return cdc.Position(set.String()), nil
}
