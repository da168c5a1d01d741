package cdc

// Span is a column value's place in a batch's arena. A negative Len is NULL.
type Span struct{ Off, Len int32 }

// Tx describes a transaction with rows in a batch.
type Tx struct {
	// Commit sorts transactions in commit order (PostgreSQL: the LSN of the commit record, as
	// announced by the Begin message); 0 where the log has no such number.
	Commit uint64
	// Time is the commit time, in microseconds since the Unix epoch, by the database's clock.
	Time int64
	// Row is the index in the batch of the transaction's first row there.
	Row int
	// Ordinal is that row's place in the whole transaction, from 0: more than 0 when earlier rows
	// went out in an earlier batch.
	Ordinal uint32
}

// Batch is a run of committed rows of one table, in log order: the rows of one transaction, of several
// small ones, or of a part of a large one. A batch without rows is a heartbeat: it carries progress
// through a log in which nothing of ours happened.
type Batch struct {
	// Seq is 1, 2, 3 … in log order within a process; the source hands batches on without gaps.
	Seq uint64
	// Table is the schema of all rows; nil for a heartbeat.
	Table *Table
	// Arena holds the column values. It is shared with other batches and read-only.
	Arena []byte
	// Spans holds len(Table.Columns) values for each row.
	Spans []Span
	// Txs lists the transactions that have rows here, in commit order.
	Txs []Tx
	// Open is whether the next batch has more rows of the last transaction.
	Open bool
	// Bytes is what the batch holds in memory, for budgets.
	Bytes int
	// Free gives the arena back; called once, by Release. May be nil.
	Free func(*Batch)
}

// Rows returns the number of rows.
func (b *Batch) Rows() int {
	if b.Table == nil || len(b.Table.Columns) == 0 {
		return 0
	}
	return len(b.Spans) / len(b.Table.Columns)
}

// Value returns the value of one column of one row, as it stands in the arena in the column's [Form],
// and false for NULL. The slice is read-only and valid until Release.
func (b *Batch) Value(row, col int) ([]byte, bool) {
	s := b.Spans[row*len(b.Table.Columns)+col]
	if s.Len < 0 {
		return nil, false
	}
	return b.Arena[s.Off : s.Off+s.Len : s.Off+s.Len], true
}

// Release gives the arena back to the source. The batch must not be used afterwards.
func (b *Batch) Release() {
	if b.Free != nil {
		b.Free(b)
	}
}
