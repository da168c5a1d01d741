// Package cleanup is what is done to rows and partitions whose events are published: daily partitions are made ahead, taken out and
// dropped, old rows of other tables are deleted, and rows in tables of other software, which keeps a status of delivery, are marked.
//
// Nothing of it is in the hot path, and nothing is stored: a crash between two steps needs no repair, since the next pass sees what there is.
// What is removed or marked is found first, and then a position of the WAL or binlog behind it is noted. Once the relay has saved a later
// position, each of these events is published, or is a dead letter. The SQL is in the database's package.
//
// # Partitions
//
// An old partition is taken out of its table first. Nothing is inserted any more, so a position that the database noted at that time is
// behind everything in it. partition_plan.go decides what to do, partitions.go does it, again and again while the relay leads.
//
// # Rows
//
// sweep.go deletes old rows and marks pending ones by one loop: it reads which rows are due, then where the WAL or binlog ends, and once the
// relay has saved a position behind that, acts on each row by its key, if it is still due. deletes.go and marks.go have what differs.
//
// # Rows from before the first position
//
// They are in no WAL or binlog that the relay reads, so no position tells anything of them. A condition is settled while each row that
// meets it was published, or comes behind the position: setup settles it if no row is pending once the first position is taken, and
// backfill if it publishes all that are. The checkpoint keeps that. Where a condition is not settled, as after it was changed or added,
// the rows that are pending when a relay becomes the leader are unproven and left alone; all others are marked. So are those that are pending
// once the relay has passed a statement by which another table took the place of this one, as at the end of an online schema change. When somebody has marked
// the last unproven row, the condition is settled.
package cleanup
