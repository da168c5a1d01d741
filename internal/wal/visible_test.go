package wal

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The WAL has the lower half of a transaction ID: what the comparison says of it is what full IDs say, also where the half wraps.
func TestASnapshotShowsWhatFullIDsSay(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, seed))
	for range 2000 {
		limit := 1<<32*random.Uint64N(3) + 1<<31 + random.Uint64N(1<<32)
		if random.IntN(2) == 0 {
			limit = 1<<32*(1+random.Uint64N(3)) + random.Uint64N(40) - 20
		}
		low := limit - random.Uint64N(50)
		var running []uint64
		text := fmt.Sprintf("%d:%d:", low, limit)
		for id := low; id < limit; id++ {
			if random.IntN(3) == 0 {
				if len(running) > 0 {
					text += ","
				}
				text += fmt.Sprint(id)
				running = append(running, id)
			}
		}
		s, err := parseSnapshot([]byte(text))
		require.NoError(t, err)
		for range 100 {
			id := limit + random.Uint64N(200) - 100
			if random.IntN(10) == 0 {
				id = limit - 1<<31 + 1 + random.Uint64N(1<<32-2)
			}
			want := id < limit && !slices.Contains(running, id)
			require.Equal(t, want, s.Shows(committed{xid: uint32(id)}), "%d in %s", id, text)
		}
	}
}

func TestASnapshotThatCannotBeRead(t *testing.T) {
	for _, text := range []string{"", "1:2", "1:x:", "1:2:x", "1:2:3:4", "1:3:1,,x"} {
		_, err := parseSnapshot([]byte(text))
		assert.Error(t, err, "%q", text)
	}
}

// An answer of a standby is kept when it is promoted: it must not show what came afterwards.
func TestAStandbyShowsWhatWasReceived(t *testing.T) {
	assert.True(t, replayed(100).Shows(committed{at: 100, xid: 7}))
	assert.False(t, replayed(100).Shows(committed{at: 101, xid: 8}))
}

// A question that ctx ends may be interrupted after its connection was given up.
func TestALateInterruption(t *testing.T) {
	ctx, cancel := context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer cancel()
	for range 100 {
		conn, _ := net.Pipe()
		q := &snapshots{conn: &pgconn.HijackedConn{Conn: conn, Frontend: pgproto3.NewFrontend(conn, conn)}}
		require.Error(t, q.query(ctx))
		q.conn = nil // at once, as Close does at last
	}
}
