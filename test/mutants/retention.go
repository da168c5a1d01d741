package main

import "github.com/cdc-relay/cdc-relay/internal/testenv"

// retentionMutants drop or delete what is not published.
func retentionMutants() []mutant {
	return []mutant{
		{
			"drop a partition before the position has passed it", "internal/cleanup/plan.go",
			[]edit{{"case part.Relayed:", "case part.Relayed || part.Out:"}},
			caughtBy{faults, "^TestPartitionIsKeptWhileTheRelayLags$", postgres},
		},
		{
			"delete rows before the saved position has passed them", "internal/cleanup/purge.go",
			[]edit{{"case err != nil || passed:", "case err != nil || passed || waited >= 0:"}},
			caughtBy{faults, "^TestOldRowsAreDeletedOnceRelayed$", testenv.MySQLFlavor},
		},
		{
			"drop or delete before the saved position has passed, binlog", "internal/mysql/relayed.go",
			[]edit{{"return r.upto != nil && r.upto.Covers(noted)", "return r.upto != nil"}},
			caughtBy{faults, "^(TestOldRowsAreDeletedOnceRelayed|TestPartitionIsKeptWhileTheRelayLags)$", testenv.MariaDBFlavor},
		},
	}
}

// writeBackMutants mark rows whose events are not published.
func writeBackMutants() []mutant {
	return []mutant{
		{
			"mark rows before the saved position has passed them", "internal/cleanup/sweep.go",
			[]edit{{"		case passed:\n", "		case passed || g.behind != \"\":\n"}},
			caughtBy{marking, "^TestRowsAreMarked$", ""},
		},
		{
			"mark the rows of a table that took the place of the outbox", "internal/cleanup/sweep.go",
			[]edit{{"	if all == p.replaced {\n", "	if all == p.replaced || all != \"\" {\n"}},
			caughtBy{commands, "^TestWriteBackOfAReplacedTable$", ""},
		},
		{
			"mark rows from before the first position", "internal/cleanup/sweep.go",
			[]edit{{"return unproven || waits", "return unproven && false || waits"}},
			caughtBy{marking, "^TestRowsAreMarked$", ""},
		},
		{
			"settle a condition with unproven rows", "internal/cleanup/sweep.go",
			[]edit{{"if len(still) == 0 {", "if len(still) >= 0 {"}},
			caughtBy{marking, "^TestRowsAreMarked$", ""},
		},
		{
			"settle a condition of which not all rows were read", "internal/cleanup/sweep.go",
			[]edit{{"	if !all { // too many at first, or not read whole\n		return\n	}\n", ""}},
			caughtBy{marking, "^TestTooManyUnproven$", ""},
		},
		{
			"mark rows of dead letters", "internal/cleanup/sweep.go",
			[]edit{{"if letters.Has(k.ID) {", "if letters.Has(\"\") {"}},
			caughtBy{marking, "^TestRowsAreMarked$", ""},
		},
		{
			"keep what is settled in a position that was set", "internal/checkpoint/places.go",
			[]edit{{"c.Settled = \"\"", "_ = c.Settled"}},
			caughtBy{"./internal/app", "^TestSetPositionSettlesNothing$", ""},
		},
	}
}
