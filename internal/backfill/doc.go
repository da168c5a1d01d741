// Package backfill has sources of the relay that read an outbox table in place of the WAL or binlog.
//
// [Repair] publishes what the WAL or binlog does not have any more, and then gives the relay the position from which that goes on. Every
// batch but the last has the position that was stored before. The last one has no rows, and the new position. So nothing is moved before
// every row is acknowledged, and a repair that ends early can be run again from its beginning.
//
// [Replay] publishes rows once more. Its positions are places in the table and its own: the relay goes on beside it, with its position and
// its fence.
package backfill
