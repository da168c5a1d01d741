// Package deadletter is the vocabulary of dead letters: events that could not be published, and those that wait behind one of the
// same key. It has what a letter's record and the record of the index hold, and the [Index] of a leading relay. It connects
// to nothing.
//
// There are two topics. The one of letters has each event byte for byte, and the row that it was made of, so that it can be routed
// again. The index, one small partition, says which letters there are, without their payloads: a relay reads it at a start.
//
// # Order
//
// The events of a key (table and record key) leave the letters in the order in which the relay met them: while a key has a letter,
// its later events become letters too. Letters are ordered by [Order], not by offsets or positions: GTIDs of several servers have
// no order, and a letter is written again if its row is.
package deadletter
