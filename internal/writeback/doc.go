// Package writeback marks published rows in tables of other software that keeps a status of delivery.
//
// A sweep, as those of retention: nothing of it is in the hot path, and no row is noted anywhere. It reads which rows are pending, by the
// user's condition, and then where the WAL or binlog ends. Once the relay has saved a position behind that, each of these rows is
// published, or is a dead letter. It is marked by its key, if it is still pending. A crash between two steps needs no repair: the next
// sweep sees what there is.
//
// # Rows from before the first position
//
// They are in no WAL or binlog that the relay reads, so no position tells anything of them. A condition is settled while each row that
// meets it was published, or comes behind the position: setup settles it if no row is pending once the first position is taken, and
// backfill if it publishes all that are. The checkpoint keeps that. Where a condition is not settled, as after it was changed or added,
// the rows that are pending when a relay becomes the leader are unproven and left alone; all others are marked. So are those that are pending
// once the relay has passed a statement by which another table took the place of this one, as at the end of an online schema change. When somebody has marked
// the last unproven row, the condition is settled.
package writeback
