package postgres

import (
	"context"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

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
			where, _ := RowsSince(tt.xmin, tt.next)
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
	if where, _ := RowsSince(1000, epoch+1000); where != "" {
		t.Errorf("2^32 transactions later: %q", where)
	}
}
