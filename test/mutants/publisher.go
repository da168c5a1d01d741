package main

import "github.com/cdc-relay/cdc-relay/internal/testenv"

// publisherMutants break the order of a key, and the account of what Kafka has acknowledged.
func publisherMutants() []mutant {
	return []mutant{
		{
			"use the sequence number of a letter again that may be published", "internal/publisher/failure.go",
			[]edit{{"			if p.batch.maybeAppended {\n				l.needProducer(why.err)\n			}\n", ""}},
			caughtBy{publisher, "^TestSequenceNumberOfAGivenUpLetter$", ""},
		},
		{
			"send a failed batch behind later ones", "internal/publisher/partition.go",
			[]edit{
				{"	default:\n		b.maybeAppended, p.lastError = true, repeatedError{}", "	default:\n		p.lastError = repeatedError{}"},
				{"		l.metrics.errors.WithLabelValues(p.topic.name, \"connection\").Inc()\n", "		for range b.n {\n			p.queue.push(p.queue.pop())\n		}\n		l.unbatch(p)\n"},
			},
			caughtBy{publisher, "^TestLostBatchStaysAhead$", ""},
		},
		{
			"send a batch whose response was lost under new sequence numbers", "internal/publisher/partition.go",
			[]edit{{"	default:\n		b.maybeAppended, p.lastError = true, repeatedError{}", "	default:\n		p.seq = nextSequence(p.seq, b.n)\n		l.unbatch(p)\n		p.lastError = repeatedError{}"}},
			caughtBy{faults, "^TestResponsesLost$", postgres},
		},
		{
			"take an error of one partition for success", "internal/publisher/outcome.go",
			[]edit{{"	case moved, absent: // only metadata tells that a topic is missing: other brokers are asked for it, too\n		return reaction{when: never, refreshMetadata: true}", "	case moved, absent:\n		return reaction{when: atOnce, refreshMetadata: true, do: func(l *loop, b *batch, _ *sarama.ProduceResponseBlock) { l.acknowledged(b) }}"}},
			caughtBy{publisher, "^(TestRetryableErrorsRepeatTheSameBatch|TestLeaderMoves)$", ""},
		},
		{
			"give up what waits for a topic before it is known to be missing", "internal/publisher/topic.go",
			[]edit{{"case tp.absent && !tp.wanted", "case !tp.wanted"}},
			caughtBy{publisher, "^TestUnknownTopicStopsForLaterEventsToo$", ""},
		},
		{
			"take the sequence numbers of a batch for free that a deposed leader may have appended", "internal/publisher/partition.go",
			[]edit{{"if o == moved || o == absent || o == temporary", "if o == temporary"}},
			caughtBy{publisher, "^TestRefusedAfterAnotherLeaderMayHaveAppended$", ""},
		},
		{
			"drop an event that stops the relay", "internal/publisher/failure.go",
			[]edit{{"|| why.policy == cdc.PolicyStop", `|| why.policy == "none"`}},
			caughtBy{faults, "^TestStopAtRejectedEvent$", testenv.MySQLFlavor},
		},
		{
			"publish events behind the one that stops the relay", "internal/publisher/failure.go",
			[]edit{{"			p.halt(l)\n			l.stopAt", "			p.queue.pop()\n			l.stopAt"}, {"	l.stopSeq = seq\n", "	l.stopSeq = seq + 2\n"}},
			caughtBy{faults, "^TestStopAtRejectedEvent$", postgres},
		},
		{
			"choose other partitions after a restart", "internal/publisher/partitioner.go",
			[]edit{{`import "encoding/binary"`, "import (\n	\"encoding/binary\"\n	\"os\"\n)"}, {"int(murmur2(key)&0x7fffffff)", "int((murmur2(key)^uint32(os.Getpid()))&0x7fffffff)"}},
			caughtBy{faults, "^TestSigtermUnderLoad$", postgres},
		},
		{
			"keep a producer ID whose sequence numbers are lost", "internal/publisher/partition.go",
			[]edit{{"p.producer, p.seq = l.producer, 0", "p.producer = l.producer"}},
			caughtBy{publisher, "Sequence|Producer|Renewal", ""},
		},
	}
}

// onceMutants break exactly-once delivery.
func onceMutants() []mutant {
	return []mutant{
		{
			"blame an event for a missing right", "internal/publisher/outcome.go",
			[]edit{{"		return transactionDenied\n", "		return unexpected\n"}},
			caughtBy{publisher, "^TestTransactionalIDIsDenied$", ""},
		},
		{
			"forget the rows of the position", "internal/wal/positions.go",
			[]edit{{"if k.part.rows > 0 {", "if k.part.rows == 1 {"}},
			caughtBy{faults, "^TestExactlyOnceWithinATransaction$", postgres},
		},
		{
			"forget the rows of the position, binlog", "internal/binlog/positions.go",
			[]edit{{"Part: cdc.Part{TxID: k.part.tx, Rows: k.part.rows}", "Part: cdc.Part{TxID: k.part.tx}"}},
			caughtBy{faults, "^TestExactlyOnceWithinATransaction$", testenv.MySQLFlavor},
		},
		{
			"skip one row too few", "internal/wal/stream.go",
			[]edit{{"ss.tx.skip, ss.due = due.rows, part{}", "ss.tx.skip, ss.due = due.rows-1, part{}"}},
			caughtBy{walUnits, "^TestStartWithinATransaction$", ""},
		},
		{
			"send the position before its events are acknowledged", "internal/publisher/transaction.go",
			[]edit{{"if t.phase == full && l.pending.open.len() == 0 && !l.letters.working() {", "if t.phase == full {"}},
			caughtBy{faults, "^TestExactlyOnceWithinATransaction$", postgres},
		},
		{
			"confirm before the commit", "internal/relay/exactly_once.go",
			[]edit{{"	if err := k.Committer.Commit(ctx, c); err != nil {\n		k.metrics", "	k.Source.Confirm(seq)\n	if err := k.Committer.Commit(ctx, c); err != nil {\n		k.metrics"}},
			caughtBy{relay, "^TestExactlyOnce$", ""},
		},
		{
			"leave dead letters that are published again in an open transaction", "internal/relay/exactly_once.go",
			[]edit{{"	if k.Status().Connected {\n		k.abort(ctx)", "	if k.Status().Connected && k.savedSeq.Load() < k.window.state().sentEvents {\n		k.abort(ctx)"}},
			caughtBy{relay, "^TestStopAbortsWhatIsOpen$", ""},
		},
		{
			"keep a fence that is not stored while a start is tried again", "internal/relay/at_least_once.go",
			[]edit{{"	if err := k.loadLetters(ctx, &c); err != nil {", "	c.Fence = current\n	k.checkpoint.Store(&c)\n	if err := k.loadLetters(ctx, &c); err != nil {"}},
			caughtBy{relay, "^TestLettersAreReadAgainUnderAnotherTransactionalID$", ""},
		},
		{
			"confirm past the commit", "internal/relay/exactly_once.go",
			[]edit{{"	k.confirm(seq, &c)\n", "	k.confirm(max(seq, k.window.state().sent), &c)\n"}},
			caughtBy{relay, "^TestExactlyOnce$", ""},
		},
		{
			"save before the commit", "internal/relay/exactly_once.go",
			[]edit{{"	if err := k.Committer.Commit(ctx, c); err != nil {\n		k.metrics", "	k.checkpoint.Store(&c)\n	if err := k.Committer.Commit(ctx, c); err != nil {\n		k.metrics"}},
			caughtBy{relay, "^TestExactlyOnce$", ""},
		},
		{
			"start under a transactional ID that fences nobody", "internal/relay/exactly_once.go",
			[]edit{{"	fence := k.fence(id, \"\")\n	readable", "	fence := k.fence(id, \"\") + strconv.FormatInt(time.Now().UnixNano(), 10)\n	readable"}, {"	\"fmt\"\n", "	\"fmt\"\n	\"strconv\"\n"}},
			caughtBy{relay, "^TestExactlyOnce$", ""},
		},
		{
			"search for the position without a barrier", "internal/checkpoint/topic.go",
			[]edit{{"end, err := t.log.Commit(ctx, barrierKey, nil)", "end, err := int64(committed), error(nil)"}},
			caughtBy{checkpoint, "^TestLastPositionBeforeABarrier$", ""},
		},
		{
			"start behind an aborted attempt with nothing saved", "internal/relay/attempt.go",
			[]edit{{"a.savedSeq.Store(last)", "a.savedSeq.Store(0)"}},
			caughtBy{relay, "^TestQuietAttemptAfterARewind$", ""},
		},
	}
}

// commitMutants break the end of a transaction in Kafka.
func commitMutants() []mutant {
	return []mutant{
		{
			"take a commit without an answer for done", "internal/kafka/transaction.go",
			[]edit{{"return 0, fmt.Errorf(\"%w: commit the transaction: %w\", cdc.ErrRewind, err)", "return 0, nil"}},
			caughtBy{kafka, "^TestCommit$", ""},
		},
		{
			"repeat a commit without an answer", "internal/kafka/transaction.go",
			[]edit{{"return 0, fmt.Errorf(\"%w: commit the transaction: %w\", cdc.ErrRewind, err)", "return 0, err"}},
			caughtBy{kafka, "^TestCommit$", ""},
		},
		{
			"abort a transaction and keep its epoch", "internal/kafka/transaction.go",
			[]edit{{"		return res.Err, nil\n", "		if res.Err == sarama.ErrInvalidTxnState {\n			_, _ = b.EndTxn(&sarama.EndTxnRequest{Version: 2, TransactionalID: t.id, ProducerID: p.ID, ProducerEpoch: p.Epoch})\n		}\n		return res.Err, nil\n"}},
			caughtBy{kafka, "^TestCommit$", ""},
		},
	}
}

// placesMutants break the choice between the places that hold a position.
func placesMutants() []mutant {
	return []mutant{
		{
			"take the position in Kafka whatever its generation", "internal/checkpoint/known.go",
			[]edit{{"case !p.Committed, foreign, p.Found && stored.Generation > last.Generation:", "case !p.Committed, foreign:"}},
			caughtBy{checkpoint, "^TestEveryCombinationOfPositions$", ""},
		},
		{
			"go on from a copy of a position that is not superseded", "internal/checkpoint/known.go",
			[]edit{{"	case orphan && !p.ExactlyOnce && stored.Source.Same(id):", "	case orphan && !p.ExactlyOnce && stored.Source.Same(id) && foreign:"}},
			caughtBy{checkpoint, "^TestEveryCombinationOfPositions$", ""},
		},
		{
			"take an older checkpoint over the position in Kafka", "internal/checkpoint/known.go",
			[]edit{{"	case last.ExactlyOnce:\n", "	case !p.ExactlyOnce && p.Found && !stored.ExactlyOnce:\n		return stored, true, nil\n	case last.ExactlyOnce:\n"}},
			caughtBy{checkpoint, "^TestEveryCombinationOfPositions$", ""},
		},
		{
			"publish before the other kind's checkpoint is replaced", "internal/relay/exactly_once.go",
			[]edit{{"	case copied && copyAway(err):", "	case copied || copyAway(err):"}},
			caughtBy{relay, "^TestFirstClaimMustSucceed$", ""},
		},
		{
			"leave an earlier transactional ID unfenced", "internal/relay/exactly_once.go",
			[]edit{{"EarlierFences(fence, id, p.Stored, readable)", "EarlierFences(fence, id, p.Stored)"}},
			caughtBy{relay, "^TestEarlierTransactionalIDIsFenced$", ""},
		},
		{
			"set a position over one that was committed since", "internal/checkpoint/places.go",
			[]edit{{"if found != p.Committed || last != p.Last {", "if found != p.Committed && last != p.Last {"}},
			caughtBy{faults, "^TestPositionSetBesideAStart$", testenv.MariaDBFlavor},
		},
		{
			"leave the note that the claim is stored out when a start is tried again", "internal/checkpoint/handover.go",
			[]edit{{" || found && c == h.places.Last)", ")"}},
			caughtBy{checkpoint, "^TestHandoverIsTriedAgain$", ""},
		},
		{
			"adopt the checkpoint of another server", "internal/binlog/start.go",
			[]edit{{"sv.executed != nil && sv.executed.Covers(position)", "sv.executed != nil"}},
			caughtBy{setUnits, "^TestResolve$", ""},
		},
	}
}
