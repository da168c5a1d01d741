package main

// writerMutants break the unit of work.
func writerMutants() []mutant {
	unknown := caughtBy{appending, "^TestCommitWithoutAnAnswer$", ""}
	unit := caughtBy{appending, "^TestUnitOfWork$", ""}
	return []mutant{
		{
			"a commit without an answer is a rollback", "writer/commit.go",
			[]edit{{"	case rolledBack(ctx, err):\n", "	case err != nil:\n"}},
			unknown,
		},
		{
			"hooks run after a commit without an answer", "writer/unit_end.go",
			[]edit{{"	default:\n		return nil", "	default:\n		return u.committed"}},
			unknown,
		},
		{
			"events are cleared by a rollback", "writer/raised.go",
			[]edit{{"r.events, r.unit = u.by(r), nil\n	r.stale", "r.events, r.unit = nil, nil\n	r.stale"}},
			unit,
		},
		{
			"an aggregate of a failed attempt is used again", "writer/raised.go",
			[]edit{{" || end == endRolledBack && r.raised", ""}},
			caughtBy{appending, "^TestRunAgainAfterAConflict$", ""},
		},
		{
			"what a savepoint raised is kept", "writer/unit_end.go",
			[]edit{{"u.raised, u.sources = u.raised[:raised], u.sources[:sources]", "u.raised, u.sources = u.raised[:max(raised, len(u.raised))], u.sources[:sources]"}},
			unit,
		},
		{
			"what was flushed in a savepoint is not flushed again", "writer/unit_end.go",
			[]edit{{"u.flushed, u.stale = flushed, stale", "u.flushed, u.stale = max(flushed, u.flushed), stale"}},
			unit,
		},
		{
			"commit after the context has ended", "writer/run.go",
			[]edit{{"if err := ctx.Err(); err != nil {", "if err := ctx.Err(); false {"}},
			unit,
		},
	}
}
