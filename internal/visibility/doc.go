// Package visibility holds a batch back until a new statement on the source's server sees its rows: the WAL and the binlog show
// a transaction before the server has made it visible, and with synchronous replication long before.
//
// A [Gate] belongs to one attempt and has no goroutine: the owner of the stream asks in line, because two hand-overs between
// goroutines for each question cost more than the question.
package visibility
