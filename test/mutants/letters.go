package main

// letterMutants break what dead letters hold, and what a start knows of them.
func letterMutants() []mutant {
	return []mutant{
		{
			"write a letter without payload as a tombstone", "internal/deadletter/letter.go",
			[]edit{{"kind, value = valueNull, []byte{}", "kind = valueNull"}},
			caughtBy{letters, "^TestLetterIsReadAsWritten$", ""},
		},
		{
			"publish an empty payload in place of none", "internal/deadletter/letter.go",
			[]edit{{"	case valueNull:\n		l.Payload = nil\n", "	case valueNull:\n"}},
			caughtBy{letters, "^TestLetterIsReadAsWritten$", ""},
		},
		{
			"take the start of a commit for behind it", "internal/postgres/relayed.go",
			[]edit{{"err == nil && at > commit ||", "err == nil && at >= commit ||"}},
			caughtBy{"./internal/postgres", "^TestPassed$", ""},
		},
		{
			"take a transaction that is partly published for behind the position", "internal/mysql/relayed.go",
			[]edit{{"return ordinal < p.Part.Rows", "return ordinal <= p.Part.Rows"}},
			caughtBy{"./internal/mysql", "^TestPassed$", ""},
		},
		{
			"hold no key after a start", "internal/deadletter/index.go",
			[]edit{{`case e.Done == "":`, `case e.Done == "" && !passed(e.Place):`}},
			caughtBy{publisher, "^TestKeyIsHeld$", ""},
		},
		{
			"forget which rows come again", "internal/deadletter/index.go",
			[]edit{{"unmet); passed(e.Place) {\n", "unmet); passed(e.Place) || true {\n"}},
			caughtBy{publisher, "^TestLetterIsMetAgain$", ""},
		},
		{
			"read the index before its barrier", "internal/publisher/letters_load.go",
			[]edit{{"	if err := await(ctx, p, p.barrier.written, p.out); err != nil {\n		return nil, err\n	}\n	end := p.barrier.offset\n", "	end := int64(-1) // kafka.Committed\n"}},
			caughtBy{publisher, "^TestBarrierPrecedesTheIndex$", ""},
		},
		{
			"no barrier in the topic of letters", "internal/publisher/letters_load.go",
			[]edit{{"for id := range o.Partitions {", "for id := range o.Partitions - o.Partitions {"}},
			caughtBy{publisher, "^TestBarrierPrecedesTheIndex$", ""},
		},
		{
			"know letters by their event alone", "internal/deadletter/entry.go",
			[]edit{{`return Short(eventID) + "@" + place`, `return Short(eventID) + "@"`}},
			caughtBy{publisher, "^TestKeyIsHeld$", ""},
		},
		{
			"publish what a row was before it was corrected", "internal/deadletter/round.go",
			[]edit{{"if cdc.OfTable(placeOf(id)) {", "if cdc.OfTable(placeOf(id)) && r == nil {"}},
			caughtBy{letters, "^TestLetterOfARepairIsTheLastOne$", ""},
		},
		{
			"forget a row with the ID of another one", "internal/deadletter/index.go",
			[]edit{{"	case l.state != unmet:\n		return row, true\n", ""}},
			caughtBy{publisher, "^TestLettersOfRepairs$", ""},
		},
		{
			"one place for all rows of a table", "internal/tableread/stamp.go",
			[]edit{{"place := crc32.Update(table, crc32.IEEETable, id)", "place := crc32.Update(table, crc32.IEEETable, id[:0])"}},
			caughtBy{"./internal/tableread", "^TestPlaces$", ""},
		},
		{
			"publish past letters of a table that was renamed", "internal/deadletter/entry.go",
			[]edit{{"!slices.Contains(tables, e.Table)", "e.Table == \"\""}},
			caughtBy{publisher, "^TestLettersOfAnotherTable$", ""},
		},
	}
}

// letterSizeMutants break what becomes of letters that are too large, and of those that have no payload.
func letterSizeMutants() []mutant {
	return []mutant{
		{
			"publish an empty payload for a letter that has none", "internal/deadletter/letter.go",
			[]edit{{"		return nil, cdc.Fixable(\"resolve the dead letter with", "		_ = cdc.Fixable(\"resolve the dead letter with"}},
			caughtBy{letters, "^TestUnknownKindOfValue$", ""},
		},
		{
			"lead although letters have no payload", "internal/publisher/letters_load.go",
			[]edit{{"cmp.Or(records.Whole(), ", "cmp.Or(error(nil), "}},
			caughtBy{publisher, "^TestLettersWithoutTheirPayloadAreRefused$", ""},
		},
		{
			"remove rows that letters without a payload need", "cmd/cdc-relay/retention.go",
			[]edit{{"cdc.ReasonOf(r.unknown) == deadletter.WithoutPayload {", "cdc.ReasonOf(r.unknown) == \"\" && r.unknown != nil && deadletter.WithoutPayload == \"\" {"}},
			caughtBy{"./cmd/cdc-relay", "^TestPassWaitsForLettersWithoutTheirPayload$", ""},
		},
		{
			"write the entry of a letter that is too large", "internal/publisher/letters.go",
			[]edit{{"if size > hardLimit || size > tp.limit && !tp.limitStale {", "if size > hardLimit || size > tp.limit && what.earlier != nil {"}},
			caughtBy{publisher, "^TestLetterTooLargeForItsTopic$", ""},
		},
		{
			"accept nothing although letters wait for their rows", "internal/deadletter/index.go",
			[]edit{{"len(x.letters)-x.unmet >= x.opts.MaxLetters", "len(x.letters) >= x.opts.MaxLetters"}},
			caughtBy{letters, "^TestUnmetLetters$", ""},
		},
	}
}

// letterOrderMutants break the order of keys with dead letters, and when these come back.
func letterOrderMutants() []mutant {
	return []mutant{
		{
			"put a letter of a repair behind those that do not come again", "internal/deadletter/index.go",
			[]edit{{"if behind.state != unmet || !behind.ofTable {", "if behind.state == writing {"}},
			caughtBy{publisher, "^TestLettersOfRepairs$", ""},
		},
		{
			"put the letters of a repair before the first one of their key", "internal/deadletter/index.go",
			[]edit{{"if behind.Order.Epoch == x.epoch {", "if behind.Order.Epoch == x.epoch && behind == nil {"}},
			caughtBy{publisher, "^TestLettersOfRepairs$", ""},
		},
		{
			"a refused row is held under the table's key", "internal/router/fault.go",
			[]edit{{"		key, _ := e.recordKey(e.topic().at)\n", "		key, _ := e.recordKey(nil)\n"}},
			caughtBy{routing, "^TestRefusedRowHasKeyOfRoute$", ""},
		},
		{
			"events pass one that waits for its partition", "internal/publisher/topic.go",
			[]edit{{"len(tp.partitions) == 0 || tp.recount || tp.err != nil", "len(tp.partitions) == 0 || tp.err != nil"}},
			caughtBy{publisher, "^TestPartitionBeyondBecomesLetter$", ""},
		},
		{
			"let queued events overtake a letter of their key", "internal/publisher/letters.go",
			[]edit{{"	return x.Precedes(deadletter.HoldName(b.routed.Batch.Table, e.m.Key), x.Order(b.seq, e.m.Row), false)", "	return x == nil"}},
			caughtBy{publisher, "^TestRejectedEventsBecomeLetters$", ""},
		},
		{
			"release a key before the index says that it is free", "internal/publisher/resolve.go",
			[]edit{{"{r.publish, r.record, r.release,", "{r.publish, r.release, r.record,"}},
			caughtBy{publisher, "^TestKeyIsFreeOnceTheIndexSaysSo$", ""},
		},
		{
			"drop the letters that are held behind another", "internal/deadletter/retry.go",
			[]edit{{"case len(routed.Messages) > 0:", "case len(routed.Messages) > 0 && p.Blocked:"}},
			caughtBy{faults, "^TestDeadLetters$", postgres},
		},
		{
			"look for a letter only where its record was", "internal/deadletter/round.go",
			[]edit{{"		if w.Offset > 0 && !d.seen[id] {", "		if w.Offset < 0 && !d.seen[id] {"}},
			caughtBy{letters, "^TestLetterIsFoundBehindItsPlace$", ""},
		},
		{
			"search each time from the start", "internal/deadletter/round.go",
			[]edit{{"		r.scanned[d.partition] = rec.Offset + 1\n", ""}},
			caughtBy{letters, "^TestRoundsReadEachRecordOnce$", ""},
		},
		{
			"count a batch as published before its letter", "internal/publisher/letters.go",
			[]edit{
				{"		s.next(t)\n		l.resolve(pending, 1)\n", "		s.next(t)\n"},
				{"	x.Add(id, &d.Entry)\n", "	x.Add(id, &d.Entry)\n	l.resolve(pending, 1)\n"},
			},
			caughtBy{publisher, "^TestRowWaitsForItsLetter$", ""},
		},
	}
}

// dropMutants publish letters that somebody has asked to drop.
func dropMutants() []mutant {
	return []mutant{
		{
			"publish what an accepted drop names", "internal/deadletter/resolver.go",
			[]edit{{"case r.asks.want(Drop, w.ID), r.postponed(w.ID)", "case r.postponed(w.ID)"}},
			caughtBy{letters, "^TestOnlyTheChosenLettersAreDropped$", ""},
		},
		{
			"publish what somebody asks to drop since the round began", "internal/deadletter/round.go",
			[]edit{{"case d.r.asks.want(Drop, p.ID), ", "case "}},
			caughtBy{letters, "^TestDropDuringARound$", ""},
		},
		{
			"publish held letters while one before them may fail again in another topic", "internal/deadletter/round.go",
			[]edit{{"m.Topic != topic: //", "m.Topic != topic && false: //"}},
			caughtBy{letters, "^TestLettersBehindOneThatFailsAgain$", ""},
		},
		{
			"drop the first of a key before the others", "internal/deadletter/retry.go",
			[]edit{{"return b.Order.Compare(a.Order)", "return a.Order.Compare(b.Order)"}},
			caughtBy{letters, "^TestDropIsAFact$", ""},
		},
		{
			"drop the first of a key while another one is being written", "internal/deadletter/retry.go",
			[]edit{{"unready[w.Hold] = w.Hold != \"\"", "unready[w.Hold] = false"}},
			caughtBy{letters, "^TestOnlyTheChosenLettersAreDropped$", ""},
		},
		{
			"forget an accepted drop at a start", "internal/publisher/letters_load.go",
			[]edit{{"(a.State == deadletter.Accepted || a.Again)", "(a.State == deadletter.Accepted)"}},
			caughtBy{publisher, "^TestRowOfADroppedLetterComesAgain$", ""},
		},
		{
			"accept a drop without its letters", "internal/deadletter/asks.go",
			[]edit{{"p.accepted && state == Accepted", "p.do == Retry && state == Accepted"}},
			caughtBy{letters, "^TestDropIsAFact$", ""},
		},
		{
			"accept a drop of letters that are being published", "internal/deadletter/asks.go",
			[]edit{{"p.accepted && state == Accepted", "p.do == Drop && state == Accepted"}},
			caughtBy{letters, "^TestDroppedLettersAreCountedByTheNextLeader$", ""},
		},
		{
			"accept a drop of letters that were published", "internal/deadletter/asks.go",
			[]edit{{"p.removeGone(x)\n\t\t\tp.accepted", "p.accepted"}},
			caughtBy{letters, "^TestDroppedLettersAreCountedByTheNextLeader$", ""},
		},
		{
			"ask again for a drop of letters that were published", "internal/deadletter/desk.go",
			[]edit{{"ask.Again, ask.Letters, ask.Done = true, got.Letters, got.Done", "ask.Again = true"}},
			caughtBy{letters, "^TestDroppedLettersAreCountedByTheNextLeader$", ""},
		},
		{
			"forget what was dropped before its position is saved", "internal/deadletter/index.go",
			[]edit{{"x.letters[id] == nil && passed(placeOf(id))", "x.letters[id] == nil"}},
			caughtBy{letters, "^TestDroppedLettersAreRemembered$", ""},
		},
		{
			"forget what was dropped behind a position that the slot does not have", "internal/deadletter/resolver.go",
			[]edit{{"if r.opts.Stored != nil {", "if r.opts.Stored == nil {"}},
			caughtBy{letters, "^TestDropIsAFact$", ""},
		},
		{
			"remove what was dropped at a start", "internal/publisher/letters_load.go",
			[]edit{{`e.Done != "" && !loaded.Index.Remembers(id)`, `e.Done != ""`}},
			caughtBy{publisher, "^TestRowOfADroppedLetterComesAgain$", ""},
		},
	}
}
