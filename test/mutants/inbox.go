package main

const consuming = "./test/inbox"

// inboxMutants break the order of a consumer's effects, or do one twice.
func inboxMutants() []mutant {
	return []mutant{
		{
			"park without the record in the inbox", "inbox/parking/parking.go",
			[]edit{{"	if err != nil || !first {\n", "	if err != nil || (!first && cause == nil) {\n"}},
			caughtBy{consuming, "^TestParking$", ""},
		},
		{
			"a message does not wait behind a parked one", "inbox/parking/parking.go",
			[]edit{{"		if err != nil || !blocked {\n", "		if blocked = false; err != nil || !blocked {\n"}},
			caughtBy{consuming, "^TestParking$", ""},
		},
		{
			"a message follows a parked one that a retry is deleting", "inbox/parking/parking.go",
			[]edit{{" ORDER BY topic_offset LIMIT 1 FOR UPDATE", " ORDER BY topic_offset LIMIT 1"}},
			caughtBy{consuming, "^TestRetryOfTwoOwners$", ""},
		},
		{
			"a retry whose row another process deleted does the work", "inbox/parking/retry.go",
			[]edit{{"		if done = err == nil && n == 1; !done {\n", "		if done = err == nil && n <= 1; !done {\n"}},
			caughtBy{consuming, "^TestParking$", ""},
		},
		{
			"commit the offset of an unfinished message", "inbox/lanes/lanes.go",
			[]edit{{"	if len(l.open) > 0 {\n		return l.open[0].offset\n	}\n", ""}},
			caughtBy{"./inbox/lanes", "^TestLanes", ""},
		},
		{
			"answer a request whose transaction was rolled back", "inbox/idempotency/store.go",
			[]edit{{"	if n == 0 { //", "	if n < 0 { //"}},
			caughtBy{consuming, "^TestKeyIsFreeAfterAFailure$", ""},
		},
		{
			"replace the response of another call", "inbox/idempotency/store.go",
			[]edit{{`s.where(q, k).Add(" AND status = 0").SQL()`, "s.where(q, k).SQL()"}},
			caughtBy{consuming, "^TestResponseIsNotReplaced$", ""},
		},
		{
			"commit what a handler did after a deadlock that it hid", "inbox/mark.go",
			[]edit{{`err); !found && state == "" && number == 0`, `err); err != nil && !found && state == "" && number == 0`}},
			caughtBy{consuming, "^TestHiddenDeadlock$", ""},
		},
		{
			"take the row of another process for one's own after a deadlock", "inbox/mark.go",
			[]edit{{`.Add(" AND MICROSECOND(handled_at) = ").Int(int64(marked))`, ""}},
			caughtBy{consuming, "^TestHiddenDeadlock$", ""},
		},
		{
			"hand a message over twice that a batch has twice", "inbox/batch.go",
			[]edit{{"			delete(isNew, m)\n", ""}},
			caughtBy{consuming, "^TestBatch$", ""},
		},
	}
}

// kgoinboxMutants break what a consumer does with partitions.
func kgoinboxMutants() []mutant {
	return []mutant{
		{
			"go on with another handler after a deadlock", "inbox/registry.go",
			[]edit{{`state != "" || number != 0`, `state != "" && number != 0`}},
			caughtBy{consuming, "^TestAllStopsAfterADeadlock$", ""},
		},
		{
			"commit the offset before the database's commit", "inbox/kgoinbox/consumer.go",
			[]edit{{"		next := p.lanes.Next()\n", "		next := p.polled()\n"}, {"// giveUp stops", "func (p *partition[Tx]) polled() int64 {\n	p.mu.Lock()\n	defer p.mu.Unlock()\n	return p.next\n}\n\n// giveUp stops"}},
			caughtBy{consuming, "^TestHandlersDrain$", ""},
		},
		{
			"give up a partition before its handlers have ended", "inbox/kgoinbox/consumer.go",
			[]edit{{"	if !commit {\n		cancel()", "	if lost != nil {\n		cancel()"}},
			caughtBy{consuming, "^TestRevokedPartitionDrains$", ""},
		},
		{
			"count an outage of the database as an attempt", "inbox/kgoinbox/partition.go",
			[]edit{{"	if errors.Is(err, inbox.ErrDatabase) || ctx.Err() != nil {\n", "	if ctx.Err() != nil {\n"}},
			caughtBy{consuming, "^TestDatabaseOutage$", ""},
		},
		{
			"a retry waits behind a message that a full parking keeps", "inbox/kgoinbox/partition.go",
			[]edit{{"		if retry := p.retryOf(key); retry != nil && errors.Is", "		if retry := p.retryOf(key); retry != nil && false && errors.Is"}},
			caughtBy{consuming, "^TestFullParking$", ""},
		},
		{
			"a message that another owner parked does not block its key", "inbox/kgoinbox/partition.go",
			[]edit{{"	if parked {\n		p.block", "	if false && parked {\n		p.block"}},
			caughtBy{consuming, "^TestTwoOwners$", ""},
		},
		{
			"handle what is behind a repeat in a batch that another owner parked", "inbox/kgoinbox/batch.go",
			[]edit{{"		if repeatInFront(ms, first) {\n", "		if false && repeatInFront(ms, first) {\n"}},
			caughtBy{"./inbox/kgoinbox", "^TestRepeatsInABatch$", ""},
		},
		{
			"drain a partition that another consumer has already", "inbox/kgoinbox/consumer.go",
			[]edit{{"	if !commit {\n		cancel()", "	if false && !commit {\n		cancel()"}},
			caughtBy{consuming, "^TestLostPartition$", ""},
		},
	}
}
