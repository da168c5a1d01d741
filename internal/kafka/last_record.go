package kafka

import (
	"context"
)

// firstLook is how many offsets before the end are read first; each further look reads twice as many.
const firstLook = 64

// LastRecord returns the value of the last committed record with key in partition 0 of topic, before the offset end or
// [Committed]; found is false if there is none. It reads backwards, as a topic may hold many older records that were not
// compacted yet.
func (c *Client) LastRecord(ctx context.Context, topic, key string, end int64) (value []byte, found bool, err error) {
	r, err := c.reader(ctx, topic, 0)
	if err != nil {
		return nil, false, err
	}
	defer r.close()
	start, err := r.offsetAt(Oldest)
	if err == nil && end == Committed {
		end, err = r.offsetAt(Committed)
	}
	for n := int64(firstLook); !found && err == nil; n *= 2 {
		from := max(start, end-n)
		err = r.between(ctx, from, end, func(rec *Record) error {
			if string(rec.Key) == key {
				value, found = rec.Value, true
			}
			return nil
		})
		if from == start {
			break
		}
	}
	return value, found, err
}
