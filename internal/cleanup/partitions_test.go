package cleanup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// fake is a table whose changes are logged. A name in busy is refused once.
type fake struct {
	parts   []cdc.Partition
	rows    int64
	relayed atomic.Bool
	busy    map[string]int
	behind  time.Duration // of the database's clock
	log     []string
}

func (f *fake) Name() string { return "public.outbox" }

func (f *fake) List(context.Context) ([]cdc.Partition, time.Time, error) {
	list := slices.Clone(f.parts)
	for i := range list {
		list[i].Relayed = list[i].Out && f.relayed.Load()
	}
	return list, time.Now().Add(-f.behind), nil
}

func (f *fake) DefaultRows(context.Context) (int64, error) { return f.rows, nil }

func (f *fake) did(what string) error {
	if f.busy[what] > 0 {
		f.busy[what]--
		return fmt.Errorf("%s: %w", what, cdc.ErrBusy)
	}
	f.log = append(f.log, what)
	return nil
}

func (f *fake) Make(_ context.Context, at time.Time, swap bool) error {
	what := map[bool]string{true: "swap ", false: "make "}[swap] + name(at)
	if err := f.did(what); err != nil {
		return err
	}
	f.parts = append(f.parts, partition(at))
	return nil
}

func (f *fake) TakeOut(_ context.Context, p cdc.Partition) error {
	for i := range f.parts {
		if f.parts[i].Name == p.Name {
			f.parts[i].Out = true
		}
	}
	return f.did("out " + p.Name)
}

func (f *fake) Drop(_ context.Context, p cdc.Partition) error {
	if err := f.did("drop " + p.Name); err != nil {
		return err
	}
	f.parts = slices.DeleteFunc(f.parts, func(q cdc.Partition) bool { return q.Name == p.Name })
	return nil
}

func name(at time.Time) string { return at.Format("0102") }

func partition(at time.Time) cdc.Partition {
	return cdc.Partition{Name: name(at), Since: at, Until: at.Add(day)}
}

// days returns partitions for the days from..to after today.
func days(from, to int) (parts []cdc.Partition) {
	for i := from; i <= to; i++ {
		parts = append(parts, partition(time.Now().UTC().Truncate(day).AddDate(0, 0, i)))
	}
	return parts
}

func (f *fake) maintainer(o PartitionOptions, reg prometheus.Registerer) *Partitioner {
	open := func(context.Context) ([]Partitions, func(), error) { return []Partitions{f}, func() {}, nil }
	return NewPartitioner(o, open, slog.New(slog.DiscardHandler), reg)
}

// Time in a synctest bubble starts at 2000-01-01, midnight UTC.
func TestPass(t *testing.T) {
	for title, tt := range map[string]struct {
		from, to int // days that have a partition
		options  PartitionOptions
		rows     int64
		late     bool // nothing is relayed
		busy     map[string]int
		want     string
		left     error
	}{
		"days ahead":              {0, 1, PartitionOptions{Ahead: 3}, 0, false, nil, "make 0103, make 0104", nil},
		"no days":                 {-3, -1, PartitionOptions{Ahead: 1}, 0, false, nil, "make 0101, make 0102", nil},
		"a gap":                   {1, 1, PartitionOptions{Ahead: 2}, 0, false, nil, "make 0101, make 0103", nil},
		"rows in the default":     {0, 1, PartitionOptions{Ahead: 3}, 1, false, nil, "swap 0103, make 0104", nil},
		"rows, nothing to make":   {0, 1, PartitionOptions{Ahead: 1}, 1, false, nil, "", nil},
		"no ttl":                  {-9, 0, PartitionOptions{Drop: true}, 0, false, nil, "", nil},
		"past the ttl":            {-4, 0, PartitionOptions{TTL: 2 * day, Drop: true}, 0, false, nil, "out 1228, out 1229, drop 1228, drop 1229", nil},
		"kept for an archive":     {-3, 0, PartitionOptions{TTL: 2 * day}, 0, false, nil, "out 1229", nil},
		"lags more than the ttl":  {-4, 0, PartitionOptions{TTL: 2 * day, Drop: true}, 0, true, nil, "out 1228, out 1229", errUnrelayed},
		"a lock is not free once": {0, 0, PartitionOptions{Ahead: 2}, 0, false, map[string]int{"make 0102": 1}, "make 0102, make 0103", nil},
		"a lock is never free":    {0, 0, PartitionOptions{Ahead: 2}, 0, false, map[string]int{"make 0102": attempts}, "", cdc.ErrBusy},
		"a reader of one day":     {-4, 0, PartitionOptions{Ahead: 1, TTL: 2 * day, Drop: true}, 0, false, map[string]int{"drop 1228": attempts}, "make 0102, out 1228, out 1229, drop 1229", cdc.ErrBusy},
	} {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{parts: days(tt.from, tt.to), rows: tt.rows, busy: tt.busy}
				f.relayed.Store(!tt.late)
				<-time.After(time.Millisecond)
				err := f.maintainer(tt.options, prometheus.NewRegistry()).Maintain(t.Context())
				if !errors.Is(err, tt.left) {
					t.Errorf("left: %v", err)
				}
				if got := strings.Join(f.log, ", "); got != tt.want {
					t.Errorf("did %s\nwant %s", got, tt.want)
				}
			})
		})
	}
}

// What was taken out at a time that its comment no longer tells is kept, and said to be.
func TestTakenOutAtAnUnknownTime(t *testing.T) {
	part := cdc.Partition{Name: "restored", Out: true, Kept: errors.New("restored")}
	if p := (PartitionOptions{TTL: day, Drop: true}).Plan([]cdc.Partition{part}, time.Now()); len(p.Unrelayed) != 1 || len(p.Drop)+len(p.TakeOut) > 0 {
		t.Errorf("%+v", p)
	}
}

// The database's clock tells which days are past the TTL, not the relay's. The metrics are set although a change fails.
func TestPassByTheDatabasesClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{parts: days(-3, 0), behind: 40 * day, busy: map[string]int{"make 1122": attempts}}
		reg := prometheus.NewRegistry()
		if err := f.maintainer(PartitionOptions{TTL: 2 * day, Drop: true}, reg).Maintain(t.Context()); !errors.Is(err, cdc.ErrBusy) {
			t.Errorf("left: %v", err)
		}
		if len(f.log) > 0 {
			t.Errorf("did %s", f.log)
		}
		if n, err := testutil.GatherAndCount(reg, "cdc_relay_partitions_ahead"); n != 1 || err != nil {
			t.Errorf("%d metrics, %v", n, err)
		}
	})
}

// The loop makes a pass at every interval, sets the metrics, and drops what was late once it is relayed.
func TestLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{parts: days(-3, 0), rows: 7}
		reg := prometheus.NewRegistry()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			f.maintainer(PartitionOptions{Ahead: 1, TTL: 2 * day, Drop: true, Every: time.Hour}, reg).Run(ctx, nil)
		}()
		<-time.After(time.Minute)
		want := func(values string) {
			t.Helper()
			names := []string{"cdc_relay_partitions_ahead", "cdc_relay_default_partition_rows", "cdc_relay_partitions_unrelayed", "cdc_relay_errors_total"}
			var got []string
			families, err := reg.Gather()
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range names {
				for _, family := range families {
					if family.GetName() == name {
						metric := family.GetMetric()[0]
						got = append(got, fmt.Sprint(metric.GetGauge().GetValue()+metric.GetCounter().GetValue()))
					}
				}
			}
			if strings.Join(got, " ") != values {
				t.Errorf("%s are %s, want %s", names, got, values)
			}
		}
		want("1 7 1 1")
		f.relayed.Store(true)
		<-time.After(time.Hour)
		want("1 7 0 1")
		cancel()
		<-done
		if got := strings.Join(f.log, ", "); got != "swap 0102, out 1229, drop 1229" {
			t.Errorf("did %s", got)
		}
	})
}
