package cleanup

import (
	"slices"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

const day = 24 * time.Hour

// PartitionOptions are how partitions are kept.
type PartitionOptions struct {
	// Ahead is how many days after today have a partition.
	Ahead int
	// TTL is the age at which a partition is taken out; 0: never.
	TTL time.Duration
	// Every is the time between two passes.
	Every time.Duration
	// Drop is whether what was taken out is dropped once it is relayed.
	Drop bool
}

// Plan is what a pass does with one table.
type Plan struct {
	// Make lists the days (UTC) that lack a partition.
	Make []time.Time
	// TakeOut lists the days past the TTL, oldest first.
	TakeOut []cdc.Partition
	// Drop lists what was taken out, is past the TTL and relayed.
	Drop []cdc.Partition
	// Unrelayed lists what would be dropped if it were relayed.
	Unrelayed []cdc.Partition
}

// Plan decides what to do with a table that has these partitions.
func (o PartitionOptions) Plan(parts []cdc.Partition, now time.Time) Plan {
	p := Plan{Make: o.missing(parts, now)}
	for _, part := range parts {
		switch {
		case o.TTL == 0 || part.Foreign || part.Until.IsZero() && !part.Out || now.Sub(part.Until) < o.TTL: // taken out at an unknown time: says why
		case !part.Out && part.Until.Sub(part.Since) == day:
			p.TakeOut = append(p.TakeOut, part)
		case !part.Out || !o.Drop: // partitions of other lengths are not ours
		case part.Relayed:
			p.Drop = append(p.Drop, part)
		default:
			p.Unrelayed = append(p.Unrelayed, part)
		}
	}
	slices.SortFunc(p.TakeOut, func(a, b cdc.Partition) int { return a.Since.Compare(b.Since) })
	return p
}

// missing returns the days from today on that no partition covers.
func (o PartitionOptions) missing(parts []cdc.Partition, now time.Time) []time.Time {
	var days []time.Time
	today := now.UTC().Truncate(day)
	for i := range o.Ahead + 1 {
		if since := today.Add(time.Duration(i) * day); !covered(parts, since) {
			days = append(days, since)
		}
	}
	return days
}

// covered reports whether a part of a day has a partition.
func covered(parts []cdc.Partition, since time.Time) bool {
	return slices.ContainsFunc(parts, func(p cdc.Partition) bool {
		return !p.Out && !p.Default && p.Since.Before(since.Add(day)) && p.Until.After(since)
	})
}

// Ahead returns how many whole days the partitions reach ahead without a gap.
func Ahead(parts []cdc.Partition, now time.Time) int {
	since := now.UTC().Truncate(day)
	n := -1
	for ; covered(parts, since); since = since.Add(day) {
		n++
	}
	return max(n, 0)
}

// oldest returns the start of the oldest day that is stored.
func oldest(parts []cdc.Partition) (since time.Time) {
	for _, p := range parts {
		if !p.Default && (since.IsZero() || p.Since.Before(since)) {
			since = p.Since
		}
	}
	return since
}
