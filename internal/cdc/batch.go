package cdc

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

// Release returns the arena to the source. The batch must not be used afterwards.
func (b *Batch) Release() {
	if b.Free != nil {
		b.Free(b)
	}
}
