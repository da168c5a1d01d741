package main

import "github.com/cdc-relay/cdc-relay/internal/testenv"

// retentionMutants drop or delete what is not published.
func retentionMutants() []mutant {
	return []mutant{
		{
			"drop a partition before the position has passed it", "internal/cleanup/partition_plan.go",
			[]edit{{"case part.Relayed:", "case part.Relayed || part.Out:"}},
			caughtBy{faults, "^TestPartitionIsKeptWhileTheRelayLags$", postgres},
		},
		{
			"delete rows before the saved position has passed them", "internal/cleanup/sweep.go",
			[]edit{{"		case passed:\n", "		case passed || s.deletes != nil:\n"}},
			caughtBy{faults, "^TestOldRowsAreDeletedOnceRelayed$", testenv.MySQLFlavor},
		},
		{
			"a read of rows that the database keeps ends the deletes", "internal/cleanup/sweep.go",
			[]edit{{"len(s.refused) == refused", "refused >= 0"}},
			caughtBy{cleanup, "^TestOnlyRowsThatTheDatabaseKeepsStay$", ""},
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
			[]edit{{"		case passed:\n", "		case passed || s.marks != nil:\n"}},
			caughtBy{cleanup, "^TestRowsAreMarked$", ""},
		},
		{
			"mark the rows of a table that took the place of the outbox", "internal/cleanup/marks.go",
			[]edit{{"	if all == m.replacements {\n", "	if all == m.replacements || all != \"\" {\n"}},
			caughtBy{commands, "^TestWriteBackOfAReplacedTable$", ""},
		},
		{
			"mark rows from before the first position", "internal/cleanup/marks.go",
			[]edit{{"return unproven || letters", "return unproven && false || letters"}},
			caughtBy{cleanup, "^TestRowsAreMarked$", ""},
		},
		{
			"settle a condition with unproven rows", "internal/cleanup/marks.go",
			[]edit{{"if len(still) == 0 {", "if len(still) >= 0 {"}},
			caughtBy{cleanup, "^TestRowsAreMarked$", ""},
		},
		{
			"settle a condition of which not all rows were read", "internal/cleanup/marks.go",
			[]edit{{"	if !all { // too many at first, or not read whole\n		return\n	}\n", ""}},
			caughtBy{cleanup, "^TestTooManyUnproven$", ""},
		},
		{
			"mark rows of dead letters", "internal/cleanup/marks.go",
			[]edit{{"if !letters.Has(k.ID) {", "if !letters.Has(\"\") {"}},
			caughtBy{cleanup, "^TestRowsAreMarked$", ""},
		},
		{
			"keep what is settled in a position that was set", "internal/checkpoint/places.go",
			[]edit{{"c.Settled = \"\"", "_ = c.Settled"}},
			caughtBy{"./internal/app", "^TestSetPositionSettlesNothing$", ""},
		},
		{
			"keep the horizon of another position in one that was set", "internal/checkpoint/places.go",
			[]edit{{"= to, cdc.Part{}, \"\" //", "= to, cdc.Part{}, c.Progress.XMin //"}},
			caughtBy{"./internal/app", "^TestSetPositionSettlesNothing$", ""},
		},
	}
}
