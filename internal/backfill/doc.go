// Package backfill has what reads an outbox table in place of the WAL or binlog.
//
// [Repair] publishes what the WAL or binlog does not have any more: a source of the relay that reads the table, and then gives the relay
// the position from which the WAL or binlog goes on. Every batch but the last has the position that was stored before. The last one has no
// rows, and the new position. So nothing is moved before every row is acknowledged, and a repair that ends early can be run again from its
// beginning.
//
// [RunReplay] publishes rows once more, with a producer of its own. It has no position and no fence, and the relay goes on beside it.
package backfill
