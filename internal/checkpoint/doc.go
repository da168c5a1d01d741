// Package checkpoint keeps the relay's position outside the database, and decides which one counts, where Kafka (K), the checkpoint (C) and
// the slot (S) hold one. known.go has the decision, fence.go who is fenced before K is read, handover.go the start of at-least-once delivery
// behind exactly-once delivery, and places.go what commands show, set and reset; docs/maintainers/positions.md has the rules, and what they
// are made for.
//
// The stores of C: in Redis ([Redis]), in a file
// ([File]), or not at all ([None], the slot alone). The three answer the same calls:
//
//	Load   the stored checkpoint, if there is one
//	Claim  store the first checkpoint of a run, unless another one was stored since the load
//	Save   store the next checkpoint, unless a newer run has stored one
//	Reset  delete it (position reset, teardown), and fence a relay that is still running
//	Check  findings for the check command
//	Close  close connections, release the lock
//
// # What Save accepts
//
// A save has the number of its run (generation) and a number within that run (sequence). A later run
// has a higher generation: it is above the stored one and, as there may be none, not below the clock's
// milliseconds. A save is accepted when
//
//   - nothing is stored: a first run, or a Redis that was flushed during the run; or
//   - the checkpoint was reset, and its generation was smaller; or
//   - the stored checkpoint is of the same source, and
//     its generation is smaller, or
//     its generation is equal and its sequence is smaller, or
//     it is the same save, repeated because its answer was lost.
//
// What cannot be decoded is replaced only by a copy of the position in Kafka (exactly_once), and the checkpoint of another source
// only by a claim that continues from it, as when source.mysql.id is set for the first time.
//
// Otherwise it is refused and nothing changes: another source's checkpoint is never overwritten
// (a [cdc.StopError] of [cdc.ClassPosition]), and an older run, or a late save of this run, never
// undoes a newer one ([cdc.ErrFenced]). A store that was rolled back holds an older checkpoint and is
// simply written again. location.go decides; a Lua script (save.lua) replaces in Redis only what was
// compared, the file is compared under a lock, and both are held to the same conformance suite.
//
// Losing or rolling back a checkpoint costs duplicates and no events: it is written before the
// position is confirmed to the database, never after. MySQL and MariaDB keep no position: there a lost
// checkpoint is refused at the start, and an older one repeats.
//
// # Errors
//
// A plain error may be temporary: Redis restarting, failing over, read-only or unreachable, a full
// disk. The caller retries; until then the confirmed position does not move and publishing continues. A
// [cdc.StopError] is not fixed by a retry: [cdc.ClassConfig] for a wrong password, grant or address, but
// only until the first save has succeeded (what worked once is expected to work again), and
// [cdc.ClassPosition] for content that cannot be used. Every error has the location, the cause and the
// fix, and never a secret.
//
// # Stored form, version 1
//
// One JSON object in UTF-8, the value of a Redis string or the content of a file (there followed by
// one newline, byte 0x0A):
//
//	{
//	  "version": 1,                        number; any other number is refused
//	  "source": {
//	    "system_id": "7412345678901234567", string; PostgreSQL's system identifier
//	    "database": "orders",              string
//	    "slot": "cdc_relay_orders",        string; "" where there are no slots
//	    "timeline": 1,                     number, 32 bits
//	    "fingerprint": "publication=16385+742&public.outbox=16402+743"
//	                                       string; what the source compares at the next start, "" if it
//	                                       has nothing to
//	    "server": "1795613311.482915"      only of PostgreSQL, string; when the server was started that was read
//	  },
//	  "position": "00000000016B3748",      string; the source's own form: for PostgreSQL an LSN as 16
//	                                       upper-case hex digits
//	  "commit": "00000000016B3700",        string; end of the last outbox commit, "" if none yet; on
//	                                       MySQL and MariaDB one of the last transactions and its time
//	  "txid": "742",                       string; that transaction's id in the database's own terms
//	  "hint": "3e11fa47-…/binlog.000042/7310/0",
//	                                       only of MySQL and MariaDB, string; where the transaction of commit
//	                                       stands: server, file, offset, and how many are behind it
//	  "xmin": "4294968038",                only of PostgreSQL, string of decimal digits, 64 bits; each transaction
//	                                       with a lower ID has ended before position (for repair)
//	  "backfill": "status = 'NEW'",        string; the condition of a backfill: with a position it has ended there,
//	                                       with "" it has only begun
//	  "part": {                            only within a transaction (exactly-once delivery)
//	    "txid": "0000000001A2B3C8/742",    string; the transaction behind position, in the source's own form
//	    "rows": 12000,                     number, 32 bits; how many of its rows are published
//	    "tables": "public.outbox"          string; of these tables
//	  },
//	  "generation": "3",                   string of decimal digits without leading zeros, 64 bits
//	  "sequence": "1842",                  the same
//	  "fence": "cdc-relay.7412345678901234567.orders.cdc_relay_orders",
//	                                       string; transactional ID, by which Kafka fences earlier
//	                                       relays, kept from the first run; "" before it
//	  "last_event_id": "0198...",          string, for people; "" if unknown
//	  "saved_at": "2026-01-02T03:04:05.678901234Z", string, RFC 3339 in UTC, by the relay's clock
//	  "exactly_once": true,                only in the position in Kafka and its copies
//	  "position_topic": "cdc-relay.positions.orders.cdc_relay_orders",
//	                                       string, only beside exactly_once; the topic of that position
//	  "settled": "9c3a5e0d71f2b846",       string, names with spaces between; conditions of write_back (see package
//	                                       cleanup): each row that meets one was published or is behind position
//	  "reset": true                        only in the mark that a reset leaves in Redis for a week: no
//	                                       checkpoint, but a generation above the deleted one
//	}
//
// It is written without white space, in this order; readers rely on neither and ignore fields that
// they do not know. Numbers of 64 bits are strings because many JSON readers hold numbers as
// doubles, which are exact up to 2^53 only.
package checkpoint
