package cdc

import (
	"errors"
	"sort"
	"time"
)

// Zone is where the clocks are that wrote times without a zone. A nil Zone is UTC.
//
// A time of day that clocks show twice, because they are set back, is the first of the two. Clocks that are set forward do not show the
// times between: these are the moment of the change. So a later time of day is never an earlier moment, and a comparison in SQL selects
// what a comparison of moments would. Safe for concurrent use.
type Zone struct{ location *time.Location }

// LoadZone returns the zone with a name of the IANA time zone database ("Europe/Berlin").
func LoadZone(name string) (*Zone, error) {
	if name == "" || name == "Local" { // which LoadLocation knows too
		return nil, errors.New("unknown time zone " + name)
	}
	location, err := time.LoadLocation(name)
	if err != nil {
		return nil, err
	}
	return &Zone{location: location}, nil
}

// aDay is longer than any zone is ahead of UTC, and at most one change is within a day of any moment. Changes are looked for by offsets:
// [time.Time.ZoneBounds] is wrong on the last day of a leap year that the database does not list.
const aDay = 24 * 60 * 60

// Moment returns the moment at which the clocks showed a date and a time of day, which shown has in UTC.
func (z *Zone) Moment(shown time.Time) time.Time {
	if z == nil {
		return shown
	}
	seconds := shown.Unix()
	before, after := z.offset(seconds-aDay), z.offset(seconds+aDay)
	switch {
	case before == after || z.offset(seconds-before) == before:
		return shown.Add(-time.Duration(before) * time.Second)
	case z.offset(seconds-after) == after:
		return shown.Add(-time.Duration(after) * time.Second)
	default:
		return time.Unix(z.change(seconds-after, seconds-before), 0).UTC()
	}
}

// Shown returns the least date and time of day, in UTC, whose Moment is not before at.
func (z *Zone) Shown(at time.Time) time.Time {
	if z == nil {
		return at.UTC()
	}
	seconds := at.Unix()
	before, now := z.offset(seconds-aDay), z.offset(seconds)
	shown := at.Add(time.Duration(now) * time.Second).UTC()
	if before == now {
		return shown
	}
	change := time.Unix(z.change(seconds-aDay, seconds), 0).UTC()
	unchanged := change.Add(time.Duration(before) * time.Second) // what clocks would show then
	if at.Equal(change) || shown.Before(unchanged) {
		return unchanged
	}
	return shown
}

// change returns when, behind one moment and at the latest at another, both in Unix seconds, the offset became that of the other.
func (z *Zone) change(behind, until int64) int64 {
	last := z.offset(until)
	return behind + 1 + int64(sort.Search(int(until-behind-1), func(i int) bool { return z.offset(behind+1+int64(i)) == last }))
}

// offset is by how many seconds the clocks are ahead of UTC.
func (z *Zone) offset(unix int64) int64 {
	_, seconds := time.Unix(unix, 0).In(z.location).Zone()
	return int64(seconds)
}

// Ago returns how long ago, by a clock of UTC, the time of day is that clocks showed before that duration.
func (z *Zone) Ago(ago time.Duration) time.Duration {
	at := time.Now().Add(-ago)
	return ago - z.Shown(at).Sub(at)
}
