package main

import "github.com/cdc-relay/cdc-relay/internal/testenv"

// startMutants break how a start on MySQL and MariaDB finds its place in the binlog.
func startMutants() []mutant {
	return []mutant{
		{
			"have the server search its binlog although the place is known", "internal/binlog/history.go",
			[]edit{{"	h := s.next.hint\n	if h.file == \"\" {", "	h := s.next.hint\n	if true {"}},
			caughtBy{binlog, "^TestStartDoesNotSearchTheBinlog$", ""},
		},
		{
			"stay on a primary that was demoted", "internal/mysql/leader.go",
			[]edit{{"case demoted:", "case demoted && false:"}},
			caughtBy{faults, "^TestSwitchover$", testenv.MySQLFlavor},
		},
		{
			"stay on a demoted primary that was met again", "internal/mysql/leader.go",
			[]edit{{"	l.wrote = s.wrote == l.server\n", ""}},
			caughtBy{faults, "^TestSwitchover$", testenv.MySQLFlavor},
		},
		{
			"follow a hint on another server", "internal/binlog/dump.go",
			[]edit{{"from.at.server != server:", "from.at.server == \"\":"}},
			caughtBy{binlog, "^TestHintOfAnotherServer$", ""},
		},
		{
			"note where a transaction ends in place of where it begins", "internal/binlog/hint.go",
			[]edit{{"p.at = before.end\n", "p.at = p.end\n"}},
			caughtBy{binlog, "^TestStartDoesNotSearchTheBinlog$", ""},
		},
		{
			"leave out as many transactions as the hint says, whichever they are", "internal/binlog/history.go",
			[]edit{{"r.begun < r.counted || id == r.from.LastOf(id)", "true"}},
			caughtBy{binlog, "^TestHints$", ""},
		},
		{
			"hand on again what is read again to compare it", "internal/binlog/history.go",
			[]edit{{"	ss.tx.again = true\n", ""}},
			caughtBy{binlog, "^TestHints$", ""},
		},
		{
			"go on behind a transaction that came before the one that is compared", "internal/binlog/history.go",
			[]edit{{"if err != nil || !behind {", "if err != nil || !behind && false {"}},
			caughtBy{binlog, "^TestStampBehindNewTransactions$", ""},
		},
		{
			"read what stands before the position, again and again", "internal/binlog/session.go",
			[]edit{{"			ss.src.direct = true // only what is behind the position must be readable, and that may be in a later file\n", ""}},
			caughtBy{faults, "^TestFixesOfBinlogs$", testenv.MySQLFlavor},
		},
		{
			"leave out a row that comes in fragments", "internal/binlog/stream.go",
			[]edit{{"	if len(ss.tx.ours) == 0 {", "	if true {"}},
			caughtBy{setUnits, "^TestFragmentsOfRowsStop$", ""},
		},
		{
			"start on a binlog in InnoDB", "internal/mysql/catalog.go",
			[]edit{{`case v.is("binlog_storage_engine", "innodb"):`, `case v.is("binlog_storage_engine", "none"):`}},
			caughtBy{"./internal/mysql", "^TestBinlogInInnoDB$", ""},
		},
	}
}
