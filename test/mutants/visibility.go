package main

// visibilityMutants hand rows on that no statement sees yet.
func visibilityMutants() []mutant {
	const gate, snapshot = "internal/visibility/gate.go", "internal/wal/visible.go"
	return []mutant{
		{
			"do not wait until rows are visible", "internal/wal/stream.go",
			[]edit{{"	if err := ss.waitUntilVisible(ctx, b); err != nil {\n		return err\n	}\n", ""}},
			caughtBy{wal, "^TestRowsWaitUntilTheyAreVisible$", ""},
		},
		{
			"take the next transaction ID for a visible one", snapshot,
			[]edit{{"int32(tx.xid-s.max) < 0", "int32(tx.xid-s.max) <= 0"}},
			caughtBy{walUnits, "^TestASnapshotShowsWhatFullIDsSay$", ""},
		},
		{
			"take a running transaction for a visible one", snapshot,
			[]edit{{" && !slices.Contains(s.running, tx.xid)", " && (true || !slices.Contains(s.running, tx.xid))"}},
			caughtBy{wal, "^TestRowsWaitUntilTheyAreVisible$", ""},
		},
		{
			"take all transactions of a standby for visible ones", snapshot,
			[]edit{{"return tx.at <= lsn(r)", "return tx.at <= lsn(r) || true"}},
			caughtBy{walUnits, "^TestAStandbyShowsWhatWasReceived$", ""},
		},
		{
			"take the answer of another server", snapshot,
			[]edit{{"case string(q.row[2]) != q.ss.serverStarted:", "case string(q.row[2]) == \"\":"}},
			caughtBy{wal, "^TestVisibilityOfAnotherServer$", ""},
		},
		{
			"wait for the first transaction of a batch only", gate,
			[]edit{{"for i, tx := range txs {", "for i, tx := range txs[:min(1, len(txs))] {"}},
			caughtBy{visible, "^TestEveryTransactionIsWaitedFor$", ""},
		},
		{
			"keep an answer beyond its connection", gate,
			[]edit{
				{"		g.known = nil\n		return fmt.Errorf(\"ask", "		return fmt.Errorf(\"ask"},
				{"	g.known, g.open = nil, false\n	if err := g.opts.Serve", "	g.open = false\n	if err := g.opts.Serve"},
			},
			caughtBy{visible, "^TestAnAnswerEndsWithItsConnection$", ""},
		},
		{
			"take a promotion for a lost connection", gate,
			[]edit{{"		if err := g.opts.Serve(ctx); err != nil {\n			return err\n		}\n		err := g.question(ctx)\n", "		err := g.opts.Serve(ctx)\n		if err == nil {\n			err = g.question(ctx)\n		}\n"}},
			caughtBy{visible, "^TestServeEndsTheWait$", ""},
		},
		{
			"be a synchronous standby", "internal/postgres/synchronous.go",
			[]edit{{"return name == \"*\" ||", "return name == \"any\" &&"}},
			caughtBy{wal, "^TestRelayIsNoSynchronousStandby$", ""},
		},
	}
}
