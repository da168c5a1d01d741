package cdc

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Span is a column value's place in a batch's arena. A negative Len is NULL.
type Span struct{ Off, Len int32 }

// Tx describes a transaction with rows in a batch.
type Tx struct {
	// Commit sorts transactions in commit order (PostgreSQL: the LSN of the commit record, from the Begin message); 0 on
	// MySQL and MariaDB.
	Commit uint64
	// Time is the commit time, in microseconds since the Unix epoch, by the database's clock.
	Time int64
	// Row is the index of the transaction's first row in the batch.
	Row int
	// Ordinal is that row's index in the whole transaction: more than 0 if earlier rows are in an earlier batch.
	Ordinal uint32
}

// BatchCost is what a small batch holds beside its rows, in bytes: itself, its places in queues, and what is made of it.
const BatchCost = 1 << 10

// Batch is a sequence of committed rows of one table, in commit order: the rows of one transaction, of several small ones,
// or of a part of a large one. A batch without rows is a heartbeat: it advances the position while no outbox rows arrive.
type Batch struct {
	// Seq numbers the batches of a process: 1, 2, 3 …, without gaps.
	Seq uint64
	// Table is the schema of all rows; nil for a heartbeat.
	Table *Table
	// Arena holds the column values. It is shared with other batches and read-only.
	Arena []byte
	// Spans has len(Table.Columns) values for each row.
	Spans []Span
	// Txs lists the transactions that have rows here, in commit order.
	Txs []Tx
	// TxName returns the GTID of the transaction at an index of Txs; nil on PostgreSQL, where Commit names it.
	TxName func(i int) string
	// Open is whether the next batch has more rows of the last transaction.
	Open bool
	// Bytes is the memory that the batch holds.
	Bytes int
	// Free returns the arena to the source; called once, by Release. May be nil.
	Free func(*Batch)
}

// Rows returns the number of rows.
func (b *Batch) Rows() int {
	if b.Table == nil || len(b.Table.Columns) == 0 {
		return 0
	}
	return len(b.Spans) / len(b.Table.Columns)
}

// Value returns the value of a column of a row in the column's [Form], and false for NULL. The slice is part of the arena:
// read-only, and valid until Release.
func (b *Batch) Value(row, col int) ([]byte, bool) {
	s := b.Spans[row*len(b.Table.Columns)+col]
	if s.Len < 0 {
		return nil, false
	}
	return b.Arena[s.Off : s.Off+s.Len : s.Off+s.Len], true
}

// Tx returns the transaction of a row, and the row's number in it, from 0.
func (b *Batch) Tx(row int) (tx *Tx, ordinal uint32) {
	i := b.txOf(row)
	tx = &b.Txs[i]
	return tx, tx.Ordinal + uint32(row-tx.Row)
}

// Place names where a row is in the WAL or binlog: transaction and number, "0000000001A2B3C8/0". It is the same when the row is
// read again, after a restart too.
func (b *Batch) Place(row int) string {
	tx, ordinal := b.Tx(row)
	name := b.NameOf(row)
	if name == "" {
		name = fmt.Sprintf("%016X", tx.Commit)
	}
	return name + "/" + strconv.FormatUint(uint64(ordinal), 10)
}

// OfTable reports whether a place is that of a row that was read from the table by SQL.
func OfTable(place string) bool {
	tx, _ := SplitPlace(place)
	return strings.Trim(tx, "0") == ""
}

// SplitPlace returns the transaction and the number of a place.
func SplitPlace(place string) (tx string, ordinal uint32) {
	tx, number, _ := strings.Cut(place, "/")
	n, _ := strconv.ParseUint(number, 10, 32)
	return tx, uint32(n)
}

// NameOf is the GTID of a row's transaction; "" on PostgreSQL.
func (b *Batch) NameOf(row int) string {
	if b.TxName == nil {
		return ""
	}
	return b.TxName(b.txOf(row))
}

func (b *Batch) txOf(row int) int {
	i, found := slices.BinarySearchFunc(b.Txs, row, func(tx Tx, row int) int { return cmp.Compare(tx.Row, row) })
	if found {
		return i
	}
	return i - 1
}

// Release returns the arena to the source. The batch must not be used afterwards.
func (b *Batch) Release() {
	if b.Free != nil {
		b.Free(b)
	}
}
