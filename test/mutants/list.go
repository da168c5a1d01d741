package main

import (
	"slices"

	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// Packages of tests.
const (
	faults     = "./test/faults"
	commands   = "./test/commands"
	wal        = "./test/wal"
	binlog     = "./test/binlog"
	checkpoint = "./internal/checkpoint"
	redisStore = "./test/checkpoint"
	publisher  = "./internal/publisher"
	relay      = "./internal/relay"
	kafka      = "./internal/kafka"
	walUnits   = "./internal/wal"
	setUnits   = "./internal/binlog"
	letters    = "./internal/deadletter"
	routing    = "./internal/router"
	cleanup    = "./internal/cleanup"
	visible    = "./internal/visibility"
	replaying  = "./internal/backfill"
	appending  = "./test/writer"
)

const postgres = "postgres"

func mutants() []mutant {
	return slices.Concat(positionMutants(), windowMutants(), leaderMutants(), readerMutants(), statementMutants(), tableMutants(), publisherMutants(), onceMutants(), commitMutants(), placesMutants(), retentionMutants(), writeBackMutants(), repairMutants(), replayMutants(), letterMutants(), letterSizeMutants(), letterOrderMutants(), dropMutants(), startMutants(), historyMutants(), visibilityMutants(), binlogVisibilityMutants(), writerMutants(), inboxMutants(), kgoinboxMutants())
}

// positionMutants break the order of acknowledgement, save and confirmation.
func positionMutants() []mutant {
	return []mutant{
		{
			"confirm before the acknowledgement", "internal/relay/save.go",
			[]edit{{"seq, lastID := a.window.durable()", "seq, lastID := a.window.durable()\n\tseq = a.window.state().sent"}},
			caughtBy{faults, "^TestKeepalivesWhileUnacknowledged$", postgres},
		},
		{
			"confirm before the save", "internal/relay/at_least_once.go",
			[]edit{{"	c, err := k.store(ctx, c)\n", "	k.Source.Confirm(seq)\n	c, err := k.store(ctx, c)\n"}},
			caughtBy{relay, "^TestEverythingIsSavedAndConfirmed$", ""},
		},
		{
			"a start that is accepted ends a standstill", "internal/relay/standstill.go",
			[]edit{{"	a.standstill.since = time.Now()\n", "	a.standstill.since, a.standstill.times = time.Now(), 0\n"}},
			caughtBy{relay, "^TestStandstill$", ""},
		},
		{
			"go past a transaction that cannot be sent with the position of its commit", "internal/wal/server_said.go",
			[]edit{{"		tx.commit+1, since)", "		tx.commit, since)"}},
			caughtBy{faults, "^TestRowThatPostgreSQLCannotSend$", postgres},
		},
		{
			"publish before the sink is open", "internal/relay/at_least_once.go",
			[]edit{{"if err := k.Sink.Open(ctx, current, replaced...); err != nil {", "if err := ctx.Err(); err != nil && replaced == nil {"}},
			caughtBy{relay, "^TestEverythingIsSavedAndConfirmed$", ""},
		},
		{
			"open a sink that was killed before it is reset", "internal/relay/exactly_once.go",
			[]edit{{"		k.Sink.Reset()\n", ""}},
			caughtBy{relay, "^TestExactlyOnce$", ""},
		},
		{
			"abort while the sink may publish", "internal/relay/exactly_once.go",
			[]edit{{"	k.Sink.Kill()\n	if err := k.Committer.Abort", "	if err := k.Committer.Abort"}},
			caughtBy{relay, "^TestAbortAtTheEnd$", ""},
		},
		{
			"abort after the source was given up", "internal/relay/attempt.go",
			[]edit{{"	a.keeper.finish(ctx, err)\n	stopReading() // before the source disconnects, it reports the last confirmed position\n	tailing.Wait()\n", "	stopReading()\n	tailing.Wait()\n	a.keeper.finish(ctx, err)\n"}},
			caughtBy{relay, "^TestAbortAtTheEnd$", ""},
		},
		{
			"take what a repair has published for the last event before the gap", "internal/relay/save.go",
			[]edit{{"if c.Progress.Position != was.Position {", "{"}},
			caughtBy{"./internal/relay", "^TestLastEventIsBeforeThePosition$", ""},
		},
		{
			"save what was sent when stopped", "internal/relay/save.go",
			[]edit{{"	c.Source = a.identity(seq)\n", "	if a.flushing() {\n		seq = a.window.state().sent\n	}\n	c.Source = a.identity(seq)\n"}},
			caughtBy{faults, "^TestShutdownTimeout$", postgres},
		},
		{
			"do not wait for acknowledgements when stopped", "internal/relay/drain.go",
			[]edit{{"if a.keeper.drained(st, last, cause != nil || stuck) && (stuck ||", "if a.keeper.drained(st, last, stuck); true && (stuck ||"}},
			caughtBy{faults, "^TestSigtermWithinATransaction$", ""},
		},
		{
			"a fix that skips what is in flight", "internal/relay/attempt.go",
			[]edit{{"	if !a.drain(ctx, err) {\n		err = a.undrained(err)\n	}\n", "	a.drain(ctx, err)\n"}},
			caughtBy{faults, "^TestStopWhileKafkaIsAway$", testenv.MySQLFlavor},
		},
		{
			"skip what the source handed on before it stopped", "internal/relay/drain.go",
			[]edit{{"!a.sourceStopped.Load() || !st.unsent) {", "true) {"}},
			caughtBy{relay, "^TestSourceStops$", ""},
		},
	}
}

// windowMutants break what is counted as read, durable and saved, and the bound of what comes again.
func windowMutants() []mutant {
	return []mutant{
		{
			"leave out a commit that begins at the position", "internal/wal/stream.go",
			[]edit{{"drop: b.FinalLSN < ss.startAt.from}", "drop: b.FinalLSN <= ss.startAt.from}"}},
			caughtBy{walUnits, "^TestPositionsWithinATransaction$", ""},
		},
		{
			"drop what was read before the stream broke", "internal/binlog/session.go",
			[]edit{{"if ferr := ss.flush(ctx); ferr != nil {", "if ss.drop(); ctx.Err() != nil {"}},
			caughtBy{setUnits, "^TestStreamBreaksBehindATransaction$", ""},
		},
		{
			"take a save that began before the stop for the last one", "internal/relay/save.go",
			[]edit{{"		flushing := a.flushing()\n		err := save(ctx)\n", "		err := save(ctx)\n		flushing := a.flushing()\n"}},
			caughtBy{relay, "^TestAlteredDuringASave$", ""},
		},
		{
			"save past a gap", "internal/relay/window.go",
			[]edit{{"i < w.next && w.batches[i].durable; i++ {", "i < w.next && w.batches[i].seq <= last; i++ {"}},
			caughtBy{relay, "^TestWindow", ""},
		},
		{
			"give events back before the save", "internal/relay/window.go",
			[]edit{{"	if w.unsaved {\n		w.drop(w.acked)\n	}\n	w.wake()\n	return done", "	w.drop(w.acked)\n	w.wake()\n	return done"}},
			caughtBy{faults, "^TestWindowBoundsRepeats$", postgres},
		},
		{
			"close the window too late", "internal/relay/window.go",
			[]edit{{"w.events+events > w.maxEvents ||", "w.events > 4*w.maxEvents ||"}},
			caughtBy{faults, "^TestWindowBoundsRepeats$", testenv.MySQLFlavor},
		},
		{
			"close the window within a transaction", "internal/relay/window.go",
			[]edit{{"w.closed, w.open = true, w.open && finish", "w.closed, w.open = true, false"}},
			caughtBy{faults, "^TestSigtermWithinATransaction$", ""},
		},
	}
}

// leaderMutants break what keeps a second relay away.
func leaderMutants() []mutant {
	return []mutant{
		{
			"skip the fence", "internal/relay/at_least_once.go",
			[]edit{{"k.Sink.Open(ctx, current, replaced...)", `k.Sink.Open(ctx, "", replaced...)`}},
			caughtBy{faults, "^TestLateRequestsAreRejected$", postgres},
		},
		{
			"publish before the lock is held", "internal/binlog/acquire.go",
			[]edit{{"	if err := s.lead(ctx, db, cfg, sv.source); err != nil {", "	if err := s.lead(ctx, db, cfg, sv.source); err != nil && !errors.Is(err, cdc.ErrStandby) {"}, {"	\"database/sql\"\n", "	\"database/sql\"\n	\"errors\"\n"}},
			caughtBy{faults, "^TestTakeover$", testenv.MariaDBFlavor},
		},
		{
			"read a slot that was lost before", "internal/wal/hold.go",
			[]edit{{"if err == nil && row.ActivePID != ss.walsender {", "if err == nil && row.ActivePID != ss.walsender && row.ActivePID == 1 {"}},
			caughtBy{wal, "^TestSlotLostBeforeReading$", ""},
		},
		{
			"take another relay's checkpoint for a copy of the position in Kafka", "internal/checkpoint/known.go",
			[]edit{{" && (!p.Committed || ours(&stored, id))", ""}},
			caughtBy{faults, "^TestFixesOfPositions$/^another_relay", postgres},
		},
		{
			"take a slot that is gone for one that another relay moved", "internal/relay/at_least_once.go",
			[]edit{{"return reason == cdc.SlotMoved && k.Sink.Fenced(ctx)", "return k.Sink.Fenced(ctx)"}},
			caughtBy{relay, "^TestPositionMovedWhileDisconnected$", ""},
		},
		{
			"take a slot that was moved by hand for one that another relay moved", "internal/publisher/control.go",
			[]edit{{"	return cdc.ClassOf(err) == cdc.ClassFenced\n", "	return err == nil || cdc.ClassOf(err) == cdc.ClassFenced\n"}},
			caughtBy{publisher, "^TestFencedByASuccessor$", ""},
		},
		{
			"save a lower generation over a higher one", "internal/checkpoint/save.lua",
			[]edit{{"if stored and stored ~= ARGV[2] then", "if false then"}},
			caughtBy{faults, "^TestRefusedCheckpoint$/^newer$", ""},
		},
		{
			"save a lower generation over a higher one, in Go", "internal/checkpoint/form.go",
			[]edit{{"return next.Generation > stored.Generation", "return true"}},
			caughtBy{checkpoint, "^TestFileConformance$", ""},
		},
		{
			"claim over a checkpoint that moved on", "internal/checkpoint/location.go",
			[]edit{{"case claimed != nil && !continues:", "case claimed != nil && !newer:"}},
			caughtBy{redisStore, "^TestStandalone$", ""},
		},
		{
			"save over a checkpoint that was not compared", "internal/checkpoint/redis.go",
			[]edit{{"r.location.mayStore(c, value, *last, replaces) == nil {", "true {"}},
			caughtBy{redisStore, "^TestStandalone$", ""},
		},
		{
			"start a generation below that of a frozen leader", "internal/relay/start.go",
			[]edit{{", uint64(time.Now().UnixMilli()))", ")"}},
			caughtBy{faults, "^TestFrozenLeaderAndForgetfulRedis$", ""},
		},
	}
}

// readerMutants break what is read again and what is left out.
func readerMutants() []mutant {
	return []mutant{
		{
			"print numbers of the WAL as the database says", "internal/postgres/connect.go",
			[]edit{{"; SET extra_float_digits = 1; ", "; "}},
			caughtBy{commands, "^TestDigitsOfNumbers$", ""},
		},
		{
			"print numbers of the table as the database says", "internal/postgres/table_reader.go",
			[]edit{{"SET extra_float_digits = 1; ", ""}},
			caughtBy{commands, "^TestDigitsOfNumbers$", ""},
		},
		{
			"save the start of a commit in place of its end", "internal/wal/stream.go",
			[]edit{{"ss.next.resume = c.TransactionEndLSN", "ss.next.resume = c.CommitLSN"}},
			caughtBy{faults, "^TestKillBetweenCheckpointAndConfirm$", postgres},
		},
		{
			"do not filter what was published", "internal/wal/stream.go",
			[]edit{{"drop: b.FinalLSN < ss.startAt.from}", "drop: b.FinalLSN < ss.startAt.slot}"}},
			caughtBy{faults, "^TestKillBetweenCheckpointAndConfirm$", postgres},
		},
		{
			"repeat the part of a transaction that was handed on", "internal/wal/stream.go",
			[]edit{{"if tx.drop || tx.ordinal < tx.skip {", "if tx.drop {"}},
			caughtBy{wal, "^TestReconnectRepeatsNothing$", ""},
		},
		{
			"compare no xid", "internal/wal/stream.go",
			[]edit{{"if tx.xid != ss.startAt.expectXID {", "if tx.xid == 0 {"}},
			caughtBy{wal, "^TestOtherTransactionAtTheSamePosition$", ""},
		},
		{
			"confirm past the last look at the publication", "internal/wal/status.go",
			[]edit{{"s.positions.trim(min(s.saved.Load(), ss.monitor.good.Load()))", "s.positions.trim(s.saved.Load())"}},
			caughtBy{faults, "^TestChangedPublication$", postgres},
		},
		{
			"ask for no keepalive after telling the server to send none", "internal/wal/status.go",
			[]edit{{"		body[33] = 1\n", "		body[33] = 0\n"}},
			caughtBy{wal, "^TestIdleOutboxAdvances$", postgres},
		},
		{
			"confirm a keepalive at once", "internal/wal/stream.go",
			[]edit{{"	if k.ReplyRequested {\n		ss.pings.add", "	ss.src.confirmed.Store(max(ss.src.confirmed.Load(), uint64(k.ServerWALEnd)))\n	if k.ReplyRequested {\n		ss.pings.add"}},
			caughtBy{faults, "^TestKeepalivesWhileUnacknowledged$", postgres},
		},
		{
			"save a transaction that is not handed on whole", "internal/binlog/stream.go",
			[]edit{{"	ss.aged(tx.micros)\n", "	ss.aged(tx.micros)\n	ss.src.positions.seen(tx.id)\n"}},
			caughtBy{faults, "^TestConnectionCutMidTransaction$", testenv.MySQLFlavor},
		},
		{
			"repeat what was read before a reconnect", "internal/binlog/stream.go",
			[]edit{{"	s.received.Add(ss.tx.id)\n", ""}},
			caughtBy{faults, "^TestConnectionsCut$", testenv.MariaDBFlavor},
		},
		{
			"publish a rolled-back transaction", "internal/binlog/statements.go",
			[]edit{{"return ss.rollback()", "return ss.commit(ctx)"}, {"func (ss *session) rollback() error {", "func (ss *session) _() error {"}},
			caughtBy{binlog, "^TestTransactions$", ""},
		},
		{
			"publish what was rolled back to a savepoint", "internal/binlog/statements.go",
			[]edit{{"	ss.src.held.rewind(ss.tx.points[to])\n", "	_ = to\n"}},
			caughtBy{binlog, "^TestTransactions$", ""},
		},
	}
}

// statementMutants are of the rules for statements in the binlog in place of rows.
func statementMutants() []mutant {
	return []mutant{
		{
			"take a list of harmless tables that has the outbox at its word", "internal/binlog/statement_format.go",
			[]edit{{"what != nil && mysql.ConfiguredName(ss.src.opts.Tables, true, what.Changed.String()) == \"\"", "what != nil"}},
			caughtBy{binlog, "^TestChecksumsStop$", ""},
		},
		{
			"read a statement although its strings may end elsewhere", "internal/binlog/statements.go",
			[]edit{{"; known && plain {", "; known {"}},
			caughtBy{binlog, "^TestChecksumsStop$", ""},
		},
		{
			"pass a statement that calls functions of users", "internal/sqltext/tables.go",
			[]edit{{"len(m) < 4 || !callsBuiltIn(m[3])", "len(m) < 4"}},
			caughtBy{binlog, "^TestChecksumsStop$", ""},
		},
	}
}

// tableMutants mistake rows of a table that was renamed, dropped or taken out of the publication.
func tableMutants() []mutant {
	return []mutant{
		{
			"pass a renamed table, binlog", "internal/binlog/statements.go",
			[]edit{{"if err := ss.renamed(q); err != nil {", "if err := ss.renamed(q); err != nil && !ss.tx.open {"}},
			caughtBy{faults, "^TestRenamedTableInBinlog$", testenv.MariaDBFlavor},
		},
		{
			"take any pair of renames for an online schema change", "internal/binlog/renames.go",
			[]edit{{"strings.EqualFold(of[1], r.From.Name)", "strings.EqualFold(of[1], of[1])"}},
			caughtBy{setUnits, "^TestRenames$", ""},
		},
		{
			"let a pair of renames stand for another rename, too", "internal/binlog/renames.go",
			[]edit{{"if half >= i && !halves[half] {", "if half >= 0 {"}},
			caughtBy{setUnits, "^TestRenames$", ""},
		},
		{
			"leave no note of an altered publication", "internal/wal/altered.go",
			[]edit{{"	if !ss.src.opts.SlotAlone {\n		return\n	}\n", "	if true {\n		return\n	}\n"}},
			caughtBy{faults, "^TestAlteredWithTheSlotAlone$", postgres},
		},
		{
			"pass the note of an altered publication", "internal/wal/altered.go",
			[]edit{{"	if ss.src.opts.PassAlteration {", "	if last > 0 {"}},
			caughtBy{faults, "^TestAlteredWithTheSlotAlone$", postgres},
		},
		{
			"know a table by the name that PostgreSQL sent last", "internal/wal/relation.go",
			[]edit{{"if name, ours := ss.src.oids[id]; ours {", "if name, ours := ss.src.oids[id]; ours && name == r.table.String() {"}},
			caughtBy{wal, "^TestRenamedTableIsPublished$", ""},
		},
		{
			"take a renamed column for one that was dropped", "internal/outbox/fault.go",
			[]edit{{"	if lost == nil {", "	if lost == nil || true {"}},
			caughtBy{routing, "^TestColumnAddedSince$", ""},
		},
		{
			"repeat rows because the catalog was away", "internal/binlog/emit.go",
			[]edit{{"		ss.src.next.part = ss.partial()\n", ""}},
			caughtBy{binlog, "^TestCatalogAwayWithinTransaction$", ""},
		},
		{
			"leave out the rows of a dropped table", "internal/wal/other.go",
			[]edit{{"	if !r.other {", "	if !r.other && false {"}},
			caughtBy{wal, "^TestRowsOfDroppedTable$", ""},
		},
		{
			"take an altered publication for a takeover", "internal/relay/exactly_once.go",
			[]edit{{"	return reason != cdc.PublicationAltered", "	return true"}},
			caughtBy{relay, "^TestAlteredWhileDisconnectedIsCommitted$", ""},
		},
		{
			"forget that the publication was altered", "internal/relay/attempt.go",
			[]edit{{"	a.noteAltered(err)\n", ""}},
			caughtBy{faults, "^TestRepairOfPosition$/^altered_and_taken_back$", postgres},
		},
		{
			"pass over the rows of a table that the last run published", "internal/wal/altered.go",
			[]edit{{"	case r.left != \"\":", "	case false:"}},
			caughtBy{walUnits, "^TestCheckMeanwhile$", ""},
		},
		{
			"note only what was altered while the relay read", "internal/wal/altered.go",
			[]edit{{"	ss.noteAltered(ctx, conn, last)\n", "	if ss.src.lastConfirmed() > 0 {\n		ss.noteAltered(ctx, conn, last)\n	}\n"}},
			caughtBy{faults, "^TestAlteredWithTheSlotAlone$/^while_the_relay_was_starting_or_standing_by$", postgres},
		},
	}
}

// historyMutants mistake one history of a database for another.
func historyMutants() []mutant {
	return []mutant{
		{
			"drop a row that proves another history", "internal/wal/stream.go",
			[]edit{{"if tx.drop && ss.next.lastEnd != 0 && tx.commit >= ss.next.lastEnd {", "if false {"}},
			caughtBy{wal, "^TestRestoredServerIsPastTheCheckpoint$", ""},
		},
		{
			"keep the timeline of a standby that is promoted", "internal/wal/monitor.go",
			[]edit{{"if m.ss.standby && !slot.Recovery {", "if false {"}},
			caughtBy{faults, "^TestStandbyIsPromotedWhileItIsRead$", postgres},
		},
		{
			"refuse what was read between a promotion and the look", "internal/wal/start.go",
			[]edit{{"if before.Server != \"\" && before.Server == sv.source.Server {", "if false {"}},
			caughtBy{walUnits, "^TestFollow$", ""},
		},
		{
			"trust a position that was read from another server", "internal/wal/start.go",
			[]edit{{"if before.Server != \"\" && before.Server == sv.source.Server {", "if before.Server == sv.source.Server || true {"}},
			caughtBy{walUnits, "^TestFollow$", ""},
		},
	}
}

// repairMutants make repair read less than the gap, or move the position too early.
func repairMutants() []mutant {
	return []mutant{
		{
			"finish a repair before its position is saved", "internal/backfill/repair.go",
			[]edit{{"if err := s.finish(ctx, q); err != nil {", "if err := errors.Join(s.db.Finish(ctx), s.finish(ctx, q)); err != nil {"}},
			caughtBy{replaying, "^TestEmptyTableIsNotRead$", ""},
		},
		{
			"end the gap at the xmax of the slot's snapshot", "internal/postgres/ended.go",
			[]edit{{"return xmin, max(xmin, next), err", "return xmin, next, err"}},
			caughtBy{faults, "^TestRepairWhileTransactionsEnd$", postgres},
		},
		{
			"adopt the horizon before the position has passed it", "internal/wal/stream.go",
			[]edit{{"h != nil && h.At <= ss.next.resume {", "h != nil {"}},
			caughtBy{walUnits, "^TestHorizonCountsBehindItsPlace$", ""},
		},
		{
			"read a table once although a partition was taken out meanwhile", "internal/tableread/reader.go",
			[]edit{{"changed, err = r.Refresh(ctx)", "changed = false"}},
			caughtBy{wal, "^TestDetachedWhileAStatementWaits$", ""},
		},
		{
			"read a table once although a partition was taken out meanwhile, binlog", "internal/tableread/reader.go",
			[]edit{{"changed, err = r.Refresh(ctx)", "changed = false"}},
			caughtBy{binlog, "^TestDetachedWhileAStatementWaits$", ""},
		},
		{
			"take a rewritten table for an empty one", "internal/postgres/table_snapshot.go",
			[]edit{{"if err != nil || outside == \"\" {", "if err != nil || outside != \"never\" {"}},
			caughtBy{wal, "^TestTableChangesBehindASnapshot$", ""},
		},
		{
			"accept the publication before the rows are published", "internal/backfill/repair.go",
			[]edit{{"		return was\n", "		return id\n"}},
			caughtBy{faults, "^TestRepairOfAlteredPublicationInterrupted$", postgres},
		},
		{
			"save the new position before the rows are published", "internal/backfill/repair.go",
			[]edit{{"return s.Claimed(s.ground.Stored).Progress\n", "return s.Claimed(cdc.Checkpoint{Progress: s.ground.Next}).Progress\n"}},
			caughtBy{faults, "^TestRepairKilled$", postgres},
		},
		{
			"skip rows that are there when a slot is made", "internal/provision/setup.go",
			[]edit{{"		if rows {\n", "		if rows && begins == \"\" {\n"}},
			caughtBy{commands, "^TestSetupSkipsNoRows$", ""},
		},
		{
			"skip rows that are committed while a slot is made", "internal/provision/setup_postgres.go",
			[]edit{{"if err := s.unpublished(ctx, false); err != nil {", "if err := error(nil); err != nil {"}},
			caughtBy{commands, "^TestSetupWaitsForTransactions$", ""},
		},
		{
			"make the slot before a backfill has published its rows", "internal/provision/setup_postgres.go",
			[]edit{{"	if s.Backfill && slot == nil {\n", "	if s.Where != \"\" && slot == nil {\n"}},
			caughtBy{commands, "^TestInterruptedBackfill$", ""},
		},
		{
			"store the first position before a backfill has published its rows", "internal/provision/setup_mysql.go",
			[]edit{{"	if s.Backfill {\n", "	if s.Where != \"\" {\n"}},
			caughtBy{commands, "^TestInterruptedBackfill$", ""},
		},
		{
			"let a run begin behind a backfill that has not ended", "internal/backfill/repair.go",
			[]edit{{"	case s.opts.All && c.Progress.Position == \"\":\n", "	case false:\n"}},
			caughtBy{commands, "^TestInterruptedBackfill$", ""},
		},
	}
}

// replayMutants have a replay leave events out, publish them twice, or take the relay's place.
func replayMutants() []mutant {
	return []mutant{
		{
			"use the owner's connection to another server", "internal/app/database.go",
			[]edit{{"err = elsewhere(ctx, NewDatabase(c).server, c.ConnString, dsn)", "err = ctx.Err()"}},
			caughtBy{commands, "^TestOwnerOnAnotherServer$", ""},
		},
		{
			"leave out the rows that do not fit into a piece", "internal/tableread/batch.go",
			[]edit{{"rest = rest[len(p.Keys):] {\n", "{\n"}, {"r.Batches.fitting())]\n", "r.Batches.fitting())]\n		rest = rest[len(p.Keys):]\n"}},
			caughtBy{"./internal/tableread", "^TestLargeRowsAreReadInPieces$", ""},
		},
		{
			"go on with a replay behind events that are not acknowledged", "internal/backfill/replay.go",
			[]edit{{"r.places[max(seq, r.first)-r.first].Position()", "r.places[len(r.places)-1].Position()"}},
			caughtBy{replaying, "^TestPlaceIsThatOfWhatIsAcknowledged$", ""},
		},
		{
			"count the rows of a page twice when a replay goes on", "internal/backfill/replay.go",
			[]edit{{"	r.from.Done = r.from.Rows\n", ""}},
			caughtBy{replaying, "^TestInterruptedReplayGoesOnWithoutAGap$", ""},
		},
		{
			"replay the same state twice at a time", "internal/inspect/replay_state.go",
			[]edit{{"	if !held {\n", "	if held && !held {\n"}},
			caughtBy{commands, "^TestReplayIsKilledAndResumed$", ""},
		},
		{
			"fence the relay by a replay", "internal/app/stages.go",
			[]edit{{"	o.TransactionalID, o.PositionTopic = kafka.TransactionalNone, \"\"\n", "	o.PositionTopic = \"\"\n"}},
			caughtBy{commands, "^TestReplay$", postgres},
		},
	}
}
