package wal

import (
	"context"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// A horizon counts once the position has passed its place, and only after another look that found the publication unchanged.
func TestHorizonCountsBehindItsPlace(t *testing.T) {
	var h horizons
	h.start(horizon{100, 1000})
	look := func(next horizon) {
		h.accept()
		h.propose(next)
	}
	look(horizon{200, 2000})
	want := func(position lsn, xmin string) {
		t.Helper()
		if got := h.before(position); got != xmin {
			t.Errorf("before %s: %q, want %q", position, got, xmin)
		}
	}
	want(3000, "100") // the look may have been just before the publication was changed
	look(horizon{200, 2500})
	want(1999, "100")
	want(2000, "200")
	look(horizon{300, 3000})
	want(3000, "200") // not "300", and the earlier place of 200 still counts
	look(horizon{})   // of a standby
	want(2999, "200")
	want(3000, "300")
	h.forget(2500)
	want(2500, "200")
	h.start(horizon{})
	want(9000, "")
}

// While the position stands still, only so many are kept, and what is left still counts.
func TestHorizonsAreLimited(t *testing.T) {
	var h horizons
	for i := range uint64(10 * maxHorizons) {
		h.propose(horizon{i + 1, lsn(i + 1)})
		h.accept()
	}
	if len(h.list) > maxHorizons {
		t.Errorf("%d horizons are kept", len(h.list))
	}
	if got := h.before(10 * maxHorizons); got == "" {
		t.Error("none is left")
	}
	for _, each := range h.list {
		if each.xmin != uint64(each.at) {
			t.Errorf("%v is none of those that were added", each)
		}
	}
}

// The condition of repair meets each row from the horizon on, also where the lower 32 bits of the IDs begin again, and all rows once
// they do not tell any more.
func TestRowsSinceHorizon(t *testing.T) {
	server := testenv.Postgres(t, testenv.PostgresOptions{})
	conn, err := pgx.Connect(t.Context(), server.DSN("postgres", ""))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	const epoch = 1 << 32
	for name, tt := range map[string]struct {
		xmin, next uint64
		in, out    []uint64
	}{
		"in an epoch":     {1000, 2000, []uint64{1000, 1500, 1999}, []uint64{999, 3, 2000}},
		"a later epoch":   {7*epoch + 1000, 7*epoch + 2000, []uint64{7*epoch + 1000, 7*epoch + 1999}, []uint64{7*epoch + 999, 6*epoch + 5000}},
		"over its end":    {3*epoch - 10, 3*epoch + 10, []uint64{3*epoch - 10, 3*epoch - 1, 3*epoch + 3, 3*epoch + 9}, []uint64{3*epoch - 11, 3*epoch + 10}},
		"nearly used up":  {1000, epoch + 999, []uint64{1000, epoch - 1, epoch + 3, epoch + 998}, []uint64{999}},
		"nothing is open": {1000, 1000, nil, []uint64{999, 1000}},
	} {
		t.Run(name, func(t *testing.T) {
			where, _ := since(tt.xmin, tt.next)
			for want, ids := range map[bool][]uint64{true: tt.in, false: tt.out} {
				for _, id := range ids {
					var got bool
					err := conn.QueryRow(t.Context(), "SELECT "+where+" FROM (SELECT $1::text AS xmin) AS rows", strconv.FormatUint(uint64(uint32(id)), 10)).Scan(&got)
					if err != nil || got != want {
						t.Errorf("transaction %d: %t, %v", id, got, err)
					}
				}
			}
		})
	}
	if where, _ := since(1000, epoch+1000); where != "" {
		t.Errorf("2^32 transactions later: %q", where)
	}
}
