// Package deadletter holds dead letters: events that could not be published, and later events that wait behind one of the same key.
//
// The publisher writes a letter and asks the [Index] whether an event may be sent. The [Resolver] publishes letters again, or drops
// them, while the relay leads. The [Desk] is the commands' side: it reads letters, and asks the leader to resolve some. Commands
// only ask, by a record in the index: otherwise two producers would race, and a key with steady load could never be drained.
//
// # Glossary
//
//	letter       an event that could not be published: a record of the topic of letters, with the event byte for byte and the row that
//	             it was made of, so that it can be routed again (Letter)
//	index        a topic of one partition that says which letters there are, without their payloads; a relay reads it at a start. Also
//	             what the leading relay keeps of it in memory (Index)
//	entry        a letter's record in the index (Entry)
//	place        where the letter's row is in the WAL or binlog; the same each time that the row is read
//	order        where a letter stands among those of its key (Order)
//	blocked      something is wrong with the letter itself: it has a reason of its own
//	held         nothing is wrong with the letter, it waits behind another one of its key. Held letters are published as soon as that
//	             one is resolved, without anybody asking. A key with letters is a held key, and the hold name is its table and key
//	unmet        an earlier run wrote the letter's entry, and its row may be read again
//	stored       letter and entry are acknowledged: the letter can be resolved
//	barrier      a record that a start writes: nothing behind it is of an earlier relay
//	resolve      publish a letter again, or drop it (Resolution); what became of it is its Outcome
//	ask          a command's request to resolve letters, and the relay's answer, in the index (Ask)
//	retry, drop  the two things that can be asked for
//	round        what the resolver does between two looks at the asks; a chunk is what it publishes at once
//
// # Order
//
// The events of a key (table and record key) leave the letters in the order in which the relay met them: while a key has a letter,
// its later events become letters too. Letters are ordered by [Order], not by offsets or positions: GTIDs of several servers have
// no order, and a letter is written again if its row is.
//
// # Publishing again
//
//	index ── letters that may go, of each key the first ones ──► scan of the topic of letters
//	                                                                 │ chunks, of any keys
//	                                                             Router, with the present configuration
//	                                                                 │
//	      attempts noted in the index ──► published ──► resolved in the index ──► tombstones
//
// The letter's record has the row that it was made of, so it is routed as if the row came now. Whatever a crash leaves of these
// steps the next start goes on with; see package publisher.
package deadletter
