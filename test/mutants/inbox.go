package main

const consuming = "./test/inbox"

// inboxMutants break the order of a consumer's effects, or do one twice.
func inboxMutants() []mutant {
	return []mutant{
		{
			"park without the record in the inbox", "inbox/parking.go",
			[]edit{{"	if err != nil || !first {\n", "	if err != nil || (!first && cause == nil) {\n"}},
			caughtBy{consuming, "^TestParking$", ""},
		},
		{
			"a message does not wait behind a parked one", "inbox/parking.go",
			[]edit{{"		if err != nil || !blocked {\n", "		if blocked = false; err != nil || !blocked {\n"}},
			caughtBy{consuming, "^TestParking$", ""},
		},
		{
			"a retry whose row another process deleted does the work", "inbox/parking_retry.go",
			[]edit{{"		if done = err == nil && n == 1; !done {\n", "		if done = err == nil && n <= 1; !done {\n"}},
			caughtBy{consuming, "^TestParking$", ""},
		},
		{
			"commit the offset of an unfinished message", "inbox/lanes.go",
			[]edit{{"	if len(l.open) > 0 {\n		return l.open[0].offset\n	}\n", ""}},
			caughtBy{"./inbox", "^TestLanes", ""},
		},
	}
}
