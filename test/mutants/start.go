package main

import "github.com/cdc-relay/cdc-relay/internal/testenv"

// startMutants break how a start on MySQL and MariaDB finds its place in the binlog.
func startMutants() []mutant {
	return []mutant{
		{
			"have the server search its binlog although the place is known", "internal/binlog/history.go",
			[]edit{{"	h := s.hint\n	if h.file == \"\" || s.inInnoDB {", "	h := s.hint\n	if true {"}},
			caughtBy{binlog, "^TestStartDoesNotSearchTheBinlog$", ""},
		},
		{
			"follow a hint into a binlog that has no places", "internal/binlog/history.go",
			[]edit{{" || s.inInnoDB {", " {"}},
			caughtBy{setUnits, "^TestBinlogInInnoDB$", ""},
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
			"note places of a binlog that has none", "internal/binlog/stream.go",
			[]edit{{"	if ss.src.inInnoDB {", "	if false {"}},
			caughtBy{setUnits, "^TestBinlogInInnoDB$", ""},
		},
	}
}

// fragmentMutants put rows together that do not belong together.
func fragmentMutants() []mutant {
	return []mutant{
		{
			"take fragments of rows for whole ones", "internal/binlog/fragments.go",
			[]edit{{"if f.number != p.come+1 || f.of != p.of || f.number > f.of {", "if false {"}},
			caughtBy{setUnits, "^TestFragmentsThatDoNotFit$", ""},
		},
		{
			"end a transaction whose fragments have not all come", "internal/binlog/stream.go",
			[]edit{{"if ss.parts.come > 0 {", "if ss.parts.come > 0 && kind != replication.XID_EVENT {"}},
			caughtBy{setUnits, "^TestFragmentsThatDoNotFit$", ""},
		},
	}
}
