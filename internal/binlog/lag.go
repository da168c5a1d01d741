package binlog

import "time"

// Lag is how old the transaction that came last was when it came, whatever table it wrote to: so a relay that works
// its way through the binlog of other tables is seen to be behind. It is 0 at the end of the binlog.
//
// A reader at the end of the binlog gets each transaction as it is committed, so what is left of a small age is the
// network, the clocks of two machines, and MariaDB's whole seconds. A large one does not outlast the transaction that
// had it: the next one brings its own, and an idle server says by a heartbeat that there is no next one. While the
// database is away it stays.
func (s *Source) Lag() time.Duration { return time.Duration(s.lag.Load()) }

// atEnd is the age up to which a transaction is taken for one that has just been committed.
const atEnd = 2 * time.Second

// aged notes a transaction's commit time, Unix microseconds, when it begins to come.
func (ss *session) aged(micros int64) {
	age := ss.read.Sub(time.UnixMicro(micros))
	if age < atEnd {
		age = 0
	}
	ss.src.lag.Store(int64(age))
}

// idle notes a heartbeat: the server has sent all that it has.
func (ss *session) idle() { ss.src.lag.Store(0) }
