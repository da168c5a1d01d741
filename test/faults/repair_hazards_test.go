package faults

import (
	"strings"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
)

// lost starts the relay, publishes some events, and loses the slot or purges the binlog after more were written, which only the
// table has.
func lost(t *testing.T, r *cdctest.Rig) {
	t.Helper()
	r.Start()
	r.AwaitSaved(r.Append("before", 10))
	r.Must(r.TermRelay().Do(r.Within(time.Minute), r.Random))
	r.Kill()
	r.Must(r.DB.InsertMany(r.Within(time.Minute), "many-", 20_000, 200))
	r.Must(r.DB.LoseLog(t.Context()))
}

// Repair is killed again and again, at each moment up to its end, and then runs to its end.
//
//covers:all 1 12 19 events both
func TestRepairKilled(t *testing.T) {
	for name, source := range sources() {
		t.Run(name, func(t *testing.T) {
			for _, d := range deliveries() {
				t.Run(string(d), func(t *testing.T) {
					r := newRig(t, source.open(t), cdctest.InRedis, func(o *cdctest.RigOptions) { o.Delivery = d })
					lost(t, r)
					kills := 0
					for after := 50 * time.Millisecond; ; after += after/8 + 20*time.Millisecond {
						r.Repeated("repair")
						r.Must(r.Relay.StartCommand(t.Context(), "repair"))
						select {
						case <-r.Relay.Done():
						case <-time.After(after):
							r.Relay.Kill()
						}
						exit, err := r.Relay.Wait(r.Within(time.Minute))
						r.Must(err)
						if exit.Code == 0 {
							break
						}
						if exit.Code > 0 {
							t.Fatalf("exit code %d: %s", exit.Code, exit.Log)
						}
						kills++
					}
					t.Logf("killed %d times; at last it said:\n%s", kills, r.Relay.Log())
					if kills < 3 {
						t.Errorf("killed %d times only", kills)
					}
					r.Start()
					r.AwaitEvents(r.Append("after", 10))
					r.Verify()
				})
			}
		})
	}
}

// While repair publishes, no relay leads, and no other repair starts. Afterwards one goes on.
//
//covers:all 7 12 19 events both
func TestRepairKeepsRelaysOut(t *testing.T) {
	for name, source := range sources() {
		t.Run(name, func(t *testing.T) {
			for _, d := range deliveries() {
				t.Run(string(d), func(t *testing.T) {
					r := newRig(t, source.open(t), cdctest.InRedis, func(o *cdctest.RigOptions) { o.Delivery = d })
					lost(t, r)
					r.Repeated("repair")
					second := r.Second()
					r.Must(r.Relay.StartCommand(t.Context(), "repair"))
					r.Must(r.Relay.AwaitLog(r.Within(time.Minute), "msg=reading"))
					resume := pauseKafka(t)
					_, err := second.Command(r.Within(time.Minute), "repair")
					if r.Relay.Running() && (err == nil || !strings.Contains(err.Error(), "or another repair, runs")) {
						t.Errorf("another repair: %v", err)
					}
					r.Must(second.Start(t.Context()))
					if name == "postgres" {
						exit, err := second.Wait(r.Within(time.Minute))
						r.Must(err)
						if r.Relay.Running() && exit.Code != 5 {
							t.Errorf("another relay: exit code %d: %s", exit.Code, exit.Log)
						}
					} else {
						r.Must(second.AwaitLog(r.Within(time.Minute), "standing by"))
					}
					resume()
					r.AwaitExit(time.Minute, 0)
					if !second.Running() {
						r.Must(second.Start(t.Context()))
					}
					r.Must(second.AwaitReady(r.Within(time.Minute)))
					r.AwaitEvents(r.Append("after", 10))
					r.Verify()
				})
			}
		})
	}
}

// Rows that were there before the slot, or before the first position, are published by setup --backfill, and then the relay goes on.
//
//covers:all 12 19 events both
func TestBackfill(t *testing.T) {
	for name, source := range sources() {
		t.Run(name, func(t *testing.T) {
			for _, r := range besides(t, source.open, cdctest.InRedis, nil) {
				ctx := r.Within(2 * time.Minute)
				if name == "postgres" {
					r.Must(r.DB.LoseLog(ctx))
				}
				r.Must(r.DB.InsertMany(ctx, "old-", 1000, 100))
				if name != "postgres" { // setup has stored the first position
					_, err := r.Relay.Command(ctx, "position", "reset")
					r.Must(err)
				}
				r.Repeated("backfill")
				out, err := r.Relay.Command(ctx, "setup", "--backfill")
				r.Must(err)
				t.Log(out)
				r.AwaitCount(1000)
				r.Start()
				r.AwaitEvents(r.Append("after", 10))
				r.Verify()
			}
		})
	}
}

// A transaction that was open when later ones were published is in the gap, with its subtransactions, however old its rows are.
//
//covers:postgres 12 17 events both
func TestRepairOfLongTransaction(t *testing.T) {
	for _, d := range deliveries() {
		t.Run(string(d), func(t *testing.T) {
			r := newRig(t, newPostgres(t), cdctest.InRedis, func(o *cdctest.RigOptions) { o.Delivery = d })
			r.Start()
			r.AwaitSaved(r.Append("before", 10))
			long, err := r.DB.Connect(r.Within(2 * time.Minute))
			r.Must(err)
			defer long.Close()
			r.Must(long.Begin(t.Context()))
			for _, key := range []string{"long", "longer"} {
				first, err := long.Reserve(t.Context(), key, 1)
				r.Must(err)
				r.Must(long.Insert(t.Context(), []*cdctest.Event{cdctest.NewEvent(key, first, 100)}))
				r.Must(long.Savepoint(t.Context()))
			}
			for text := ""; !strings.Contains(text, `"xmin":`); { // the relay looks once a second
				r.AwaitSaved(r.Append("meanwhile", 1))
				text, err = r.Redis.Do(r.Within(time.Minute), "GET", r.RedisKey())
				r.Must(err)
			}
			r.AwaitSaved(r.Append("later", 10))
			r.Must(r.TermRelay().Do(r.Within(time.Minute), r.Random))
			r.Kill()
			r.Must(r.DB.LoseLog(t.Context()))
			r.Must(long.Commit(t.Context()))
			r.Repeated("repair")
			out, err := r.Relay.Command(r.Within(time.Minute), "repair", "--overlap", "0s")
			r.Must(err)
			if !strings.Contains(out, "rows of transaction") {
				t.Errorf("the gap is not by transaction: %s", out)
			}
			r.Start()
			r.Verify()
		})
	}
}

// Without a checkpoint repair asks where the gap begins, and publishes nothing.
//
//covers:postgres 12 exit
func TestRepairOfUnknownGap(t *testing.T) {
	r := newRig(t, newPostgres(t), cdctest.SlotOnly, nil)
	events := r.Append("unread", 10)
	began := time.Now()
	r.Must(r.DB.LoseLog(t.Context()))
	r.Must(r.Relay.StartCommand(t.Context(), "repair"))
	says(t, r.AwaitExit(time.Minute, 5), "no checkpoint tells", "`cdc-relay repair --since TIME`", "`cdc-relay repair --all`")
	out, err := r.Relay.Command(r.Within(time.Minute), "repair", "--since", began.UTC().Format(time.RFC3339))
	r.Must(err)
	if !strings.Contains(out, "complete if none of their transactions was open for longer than 10m0s") {
		t.Errorf("it does not say on what it rests: %s", out)
	}
	r.AwaitEvents(events)
	r.Start()
	r.Verify()
}
