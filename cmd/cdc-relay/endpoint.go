package main

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/admin"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/deadletter"
	"github.com/cdc-relay/cdc-relay/internal/postgres"
	"github.com/cdc-relay/cdc-relay/internal/relay"
	"github.com/cdc-relay/cdc-relay/internal/source"
)

// stuckAfter is how long the replication connection may go unserved. It is served several times a second, whatever
// the servers do, so a longer time is a bug of the relay that only a restart fixes.
const stuckAfter = time.Minute

func endpoint(c *config.Config, r *relay.Relay, src source.Source, letters *deadletter.Resolver, reg prometheus.Gatherer, profile bool) admin.Options {
	started, version := time.Now(), buildVersion()
	return admin.Options{
		Listen: c.HTTP.Listen, HealthListen: c.HTTP.HealthListen, WebConfig: c.HTTP.WebConfig, Gatherer: withUnits(reg), Profile: profile,
		Actions: c.HTTP.Actions, Desk: pageDesk(c),
		Ready: func() error {
			if err := r.Ready(); err != nil {
				return err
			}
			return lettersFull(letters)
		},
		Live: func() error { return live(r.Status(), src.State()) },
		Status: func() admin.Status {
			st := statusOf(r.Status(), src.State())
			if st.Source.Database == "" { // a standby has not asked
				st.Source.Database = c.Database()
			}
			st.DeadLetters = letterStatus(letters)
			st.Version, st.Revision, st.StartedAt = version.Version, version.Revision, started
			return st
		},
	}
}

func letterStatus(letters *deadletter.Resolver) *admin.DeadLetters {
	if letters == nil {
		return nil
	}
	s := letters.Summary()
	return &admin.DeadLetters{Events: s.Letters, Held: s.Held, Keys: s.Keys, Oldest: s.Oldest, Full: s.Full}
}

// lettersFull is an error if nothing is published because there may be no more dead letters.
func lettersFull(letters *deadletter.Resolver) error {
	if letters == nil || !letters.Summary().Full {
		return nil
	}
	return cdc.Fixable("see the reasons with `cdc-relay dlq list`, and once they are repaired publish the letters with `cdc-relay dlq retry --all --yes`; drop those that nobody needs, or raise dead_letter.max_held_events and dead_letter.max_held_keys",
		"nothing is published: there may be no more dead letters")
}

func live(r relay.Status, f source.State) error {
	if r.State == relay.StateLeading && f.Connected && !f.LastTick.IsZero() && time.Since(f.LastTick) > stuckAfter {
		return cdc.Fixable("restart the relay and report this", "the replication connection was not served for %s", time.Since(f.LastTick).Round(time.Second))
	}
	return nil
}

func statusOf(r relay.Status, f source.State) admin.Status {
	st := admin.Status{
		State: string(r.State), Since: r.Since, Connected: r.Connected, Stalled: r.Stalled,
		Source: admin.Source{SystemID: r.Source.SystemID, Database: r.Source.Database, Slot: r.Source.Slot, Timeline: r.Source.Timeline},
		Positions: admin.Positions{
			Received: f.Received, Acked: postgres.DisplayPosition(r.Acked), Saved: postgres.DisplayPosition(r.Checkpoint.Progress.Position), Confirmed: f.Confirmed,
		},
		Lag:      admin.Lag{Seconds: r.Lag.Seconds()},
		InFlight: admin.InFlight{Events: r.InFlightEvents, Bytes: r.InFlightBytes},
		Checkpoint: admin.Checkpoint{
			Generation: r.Checkpoint.Generation, Sequence: r.Checkpoint.Sequence,
			SavedAt: r.Checkpoint.SavedAt, LastEventID: r.Checkpoint.LastEventID,
		},
	}
	if f.Slot.WALStatus != "" {
		st.Lag.Bytes = &f.Slot.LagBytes
		st.Slot = &admin.Slot{Status: f.Slot.WALStatus, RetainedBytes: f.Slot.RetainedBytes}
		if f.Slot.SafeBytes >= 0 {
			st.Slot.SafeBytes = &f.Slot.SafeBytes
		}
	}
	for _, p := range f.Peers {
		role := "standby"
		if p.Leads {
			role = "leading"
		}
		st.Relays = append(st.Relays, admin.Relay{State: role, Name: p.Name, Address: p.Address})
	}
	for i := range r.Problems {
		p := &r.Problems[i]
		st.Problems = append(st.Problems, admin.Problem{With: string(p.With), Server: p.Server, Since: p.Since, Text: cdc.Explain(p.Err)})
	}
	if r.LastError != nil {
		st.LastError = &admin.Error{Text: cdc.Explain(r.LastError), At: r.LastErrAt, Past: r.LastPast}
		if r.LastPast { // its fix is not wanted any more
			st.LastError.Text = r.LastError.Error()
		}
	}
	return st
}
