package inbox_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// Two consumers share the partitions; every message is published twice and 5 % of the attempts fail. The consumers are killed, stopped by the
// system until others have their partitions, and replaced. Each effect happens once and in its key's order, and after a retry of all
// nothing is parked.
func TestConsumersThatAreKilled(t *testing.T) {
	rounds := 5
	if n, err := strconv.Atoi(os.Getenv("CDC_RELAY_KILLS")); err == nil {
		rounds = n
	}
	onEach(t, func(t *testing.T, db *database) {
		seed := rand.Uint64()
		if s, err := strconv.ParseUint(os.Getenv("CDC_RELAY_SEED"), 10, 64); err == nil {
			seed = s
		}
		t.Logf("CDC_RELAY_SEED=%d", seed)
		r := rand.New(rand.NewPCG(seed, 0))
		kinds := []int{0, 1, 2, 3, 4} // of the first rounds: each kind comes in any run
		consumeRounds(t, db, rounds, func(f *fleet, client *kgo.Client, group string) {
			i, kind := r.IntN(2), r.IntN(5)
			if len(kinds) > 0 {
				kind, kinds = kinds[0], kinds[1:]
			}
			switch kind {
			case 0, 1:
				_ = f.end(i, syscall.SIGKILL)
				f.start(i)
			case 2:
				f.replace(i)
			default:
				testenv.Must(t, f.members[i].Process.Signal(syscall.SIGSTOP))
				awaitMembers(t, client, group, 1) // the transactions of the stopped one hold its keys until it runs again
				testenv.Must(t, f.members[i].Process.Signal(syscall.SIGCONT))
			}
		})
	})
}

// awaitMembers waits until the group has n members.
func awaitMembers(t *testing.T, client *kgo.Client, group string, n int) {
	t.Helper()
	cdctest.Retry(t, cdctest.Patience(2*time.Minute), "members of the group", func(ctx context.Context) error {
		groups, err := kadm.NewClient(client).DescribeGroups(ctx, group)
		if g := groups[group]; err == nil && len(g.Members) != n {
			err = fmt.Errorf("the group has %d members, want %d, and is %s", len(g.Members), n, g.State)
		}
		return err
	})
}
