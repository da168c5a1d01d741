package tableread

import (
	"fmt"
	"hash/crc32"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// stamp makes each row of b a transaction, with the time of the column at; 0 without a time, and without a column, which is -1. What would be
// the row's number in it stands for the table and the ID as it is stored: a dead letter's ID is the event's and its place, two tables may
// have the same event ID, and an event's ID may be unreadable.
func stamp(b *cdc.Batch, at, key int, zone *cdc.Zone) error {
	var text []byte
	table := crc32.ChecksumIEEE([]byte(b.Table.String()))
	for row := range b.Rows() {
		id, _ := b.Value(row, key)
		place := crc32.Update(table, crc32.IEEETable, id)
		var raw []byte
		ok := at >= 0
		if ok {
			raw, ok = b.Value(row, at)
		}
		if !ok {
			b.Txs = append(b.Txs, cdc.Tx{Row: row, Ordinal: place})
			continue
		}
		var err error
		if text, err = b.Table.Columns[at].Form.AppendShown(text[:0], raw, zone); err != nil {
			return fmt.Errorf("read column %s of %s: %w", b.Table.Columns[at].Name, b.Table, err)
		}
		b.Txs = append(b.Txs, cdc.Tx{Time: micros(string(text)), Row: row, Ordinal: place})
	}
	return nil
}

// micros is 0 for what is no time of years with four digits.
func micros(text string) int64 {
	for _, layout := range []string{time.RFC3339Nano, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UnixMicro()
		}
	}
	return 0
}
