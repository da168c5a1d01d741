// Package retention makes the daily partitions of outbox tables ahead, and drops old ones in place of a purge.
//
// An old partition is taken out of its table first. Nothing is inserted any more, so a position that the database noted at
// that time is behind everything in it. Once the relay has saved a later position the table is dropped. Nothing else is
// stored, so that a crash between two steps needs no repair: the next pass sees what there is.
//
// plan.go decides what to do, pass.go does it, loop.go repeats it while the relay leads. The SQL is in the database's package.
package retention
