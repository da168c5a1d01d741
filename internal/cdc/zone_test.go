package cdc_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

const wall = "2006-01-02 15:04:05.999999"

func zone(tb testing.TB, name string) *cdc.Zone {
	tb.Helper()
	z, err := cdc.LoadZone(name)
	if err != nil {
		tb.Fatal(err)
	}
	return z
}

func TestZone(t *testing.T) {
	for _, tt := range []struct{ zone, shown, moment, selects string }{ // selects is what Shown makes of moment; "" for shown
		{"Europe/Berlin", "2026-01-15 12:00:00", "2026-01-15T11:00:00Z", ""},
		{"Europe/Berlin", "2026-07-15 12:00:00.25", "2026-07-15T10:00:00.25Z", ""},
		{"Europe/Berlin", "2026-03-29 01:59:59.999999", "2026-03-29T00:59:59.999999Z", ""},
		{"Europe/Berlin", "2026-03-29 02:00:00", "2026-03-29T01:00:00Z", ""}, // clocks go from 2 to 3
		{"Europe/Berlin", "2026-03-29 02:30:00", "2026-03-29T01:00:00Z", "2026-03-29 02:00:00"},
		{"Europe/Berlin", "2026-03-29 03:00:00", "2026-03-29T01:00:00Z", "2026-03-29 02:00:00"},
		{"Europe/Berlin", "2026-03-29 03:00:00.000001", "2026-03-29T01:00:00.000001Z", ""},
		{"Europe/Berlin", "2026-10-25 01:59:59", "2026-10-24T23:59:59Z", ""},
		{"Europe/Berlin", "2026-10-25 02:30:00", "2026-10-25T00:30:00Z", ""}, // twice, as clocks go back from 3 to 2
		{"Europe/Berlin", "2026-10-25 03:00:00", "2026-10-25T02:00:00Z", ""},
		{"America/New_York", "2026-11-01 01:30:00", "2026-11-01T05:30:00Z", ""},
		{"America/New_York", "2026-03-08 02:30:00", "2026-03-08T07:00:00Z", "2026-03-08 02:00:00"},
		{"Australia/Lord_Howe", "2026-04-05 01:45:00", "2026-04-04T14:45:00Z", ""}, // by half an hour
		{"Asia/Kolkata", "2026-01-15 00:00:00", "2026-01-14T18:30:00Z", ""},
		{"Pacific/Apia", "2011-12-30 12:00:00", "2011-12-30T10:00:00Z", "2011-12-30 00:00:00"}, // a day that was left out
		{"Europe/Berlin", "1800-01-01 00:53:28", "1800-01-01T00:00:00Z", ""},
		{"Europe/Berlin", "2199-07-01 12:00:00", "2199-07-01T10:00:00Z", ""},
		{"UTC", "2026-03-29 02:30:00", "2026-03-29T02:30:00Z", ""},
	} {
		z := zone(t, tt.zone)
		shown, err := time.Parse(wall, tt.shown)
		if err != nil {
			t.Fatal(err)
		}
		moment := z.Moment(shown)
		if got := moment.Format(time.RFC3339Nano); got != tt.moment {
			t.Errorf("%s in %s is %s, want %s", tt.shown, tt.zone, got, tt.moment)
		}
		if got, want := z.Shown(moment).Format(wall), tt.selects; got != want && (want != "" || got != tt.shown) {
			t.Errorf("%s in %s shows %s, want %s", moment, tt.zone, got, want)
		}
	}
	// The second of two equal times is that of no row.
	second := time.Date(2026, 10, 25, 1, 30, 0, 0, time.UTC)
	if got := zone(t, "Europe/Berlin").Shown(second).Format(wall); got != "2026-10-25 03:00:00" {
		t.Errorf("the second 02:30 selects from %s on", got)
	}
}

// A comparison of times of day selects what one of moments would, around each change and on the last days of leap years too.
func TestZoneComparesAsMoments(t *testing.T) {
	for _, name := range []string{"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "Asia/Kolkata", "Africa/Casablanca", "America/Sao_Paulo", "Europe/Dublin"} {
		z, location := zone(t, name), location(t, name)
		changes := 0
		for change := time.Date(2010, 1, 1, 0, 0, 0, 0, time.UTC).In(location); change.Year() < 2034; change = change.Add(30 * time.Minute) {
			if change.YearDay() != 366 && offset(change.Add(-time.Second)) == offset(change) {
				if next := change.Add(24 * time.Hour); next.YearDay() != 366 && offset(next) == offset(change) { // a day without changes
					change = next.Add(-30 * time.Minute)
				}
				continue
			}
			changes++
			var shown, moments []time.Time
			for range 8 {
				near := time.Duration(rand.Int64N(int64(6*time.Hour))) - 3*time.Hour
				near = near.Truncate([]time.Duration{time.Microsecond, 30 * time.Minute}[rand.IntN(2)])
				moments = append(moments, change.Add(near).UTC())
				local := change.Add(near)
				shown = append(shown, local.Add(time.Duration(offset(local))*time.Second).UTC())
			}
			slices.SortFunc(shown, time.Time.Compare)
			for i, s := range shown {
				if i > 0 && z.Moment(s).Before(z.Moment(shown[i-1])) {
					t.Fatalf("%s: %s is before %s", name, s, shown[i-1])
				}
				for _, m := range moments {
					if by, want := !s.Before(z.Shown(m)), !z.Moment(s).Before(m); by != want {
						t.Fatalf("%s: %s, which is %s, is at or after %s: %v by the clock, which shows %s", name, s, z.Moment(s), m, by, z.Shown(m))
					}
				}
			}
		}
		if changes < 6*48 {
			t.Errorf("%s: %d changes, and half hours of last days of leap years", name, changes)
		}
	}
}

func offset(at time.Time) int {
	_, seconds := at.Zone()
	return seconds
}

func location(tb testing.TB, name string) *time.Location {
	tb.Helper()
	l, err := time.LoadLocation(name)
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

func TestUnknownZone(t *testing.T) {
	for _, name := range []string{"", "Local", "Europe/Atlantis", "CEST", "+02:00", "../etc/passwd"} {
		if z, err := cdc.LoadZone(name); err == nil {
			t.Errorf("%q is %v", name, z)
		}
	}
}

// A nil zone is UTC.
func TestNoZone(t *testing.T) {
	var z *cdc.Zone
	at := time.Date(2026, 3, 29, 2, 30, 0, 0, time.UTC)
	if !z.Moment(at).Equal(at) || !z.Shown(at).Equal(at) || z.Ago(time.Hour) != time.Hour {
		t.Error(z.Moment(at), z.Shown(at), z.Ago(time.Hour))
	}
	if ago := zone(t, "Asia/Kolkata").Ago(24 * time.Hour); ago != 18*time.Hour+30*time.Minute {
		t.Error(ago)
	}
}
