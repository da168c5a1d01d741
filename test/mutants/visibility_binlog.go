package main

// binlogVisibilityMutants hand rows on before a statement sees them.
func binlogVisibilityMutants() []mutant {
	return []mutant{
		{
			"hand rows on before they are visible, binlog", "internal/binlog/stream.go",
			[]edit{{"if err := ss.awaitVisible(ctx); err != nil {", "if err := ctx.Err(); err != nil {"}},
			caughtBy{binlog, "^TestRowsWaitUntilTheyAreVisible$", ""},
		},
		{
			"take a new file of MariaDB for the commits of the old one", "internal/binlog/snapshot.go",
			[]edit{{"return s.settled && n > 0", "return n > 0"}},
			caughtBy{binlog, "^TestRowsWaitUntilTheyAreVisible$", ""},
		},
		{
			"take an offset of the file before for one of MariaDB's new file", "internal/binlog/snapshot.go",
			[]edit{{"f.exact = file == f.last.file && f.last.end <= end", "f.exact = file == f.last.file"}},
			caughtBy{setUnits, "^TestOffsetOfTheFileBefore$", ""},
		},
		{
			"take a server that does not answer for a damaged binlog", "internal/binlog/visible.go",
			[]edit{{"return &cdc.FixableError{Cause: err}", "return err"}},
			caughtBy{binlog, "^TestVisibilityCannotBeAsked$", ""},
		},
		{
			"ask another server what is visible, binlog", "internal/binlog/visible.go",
			[]edit{{"if id != w.stream {", "if id == \"\" {"}},
			caughtBy{binlog, "^TestVisibilityOfAnotherServer$", ""},
		},
	}
}
