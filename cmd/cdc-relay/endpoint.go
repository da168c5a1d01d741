package main

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/admin"
	"github.com/cdc-relay/cdc-relay/internal/app"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/deadletter"
	"github.com/cdc-relay/cdc-relay/internal/relay"
)

// stuckAfter is how long the replication connection may go unserved. It is served several times a second, whatever
// the servers do, so a longer time is a bug of the relay that only a restart fixes.
const stuckAfter = time.Minute

func endpoint(c *config.Config, db app.Database, r *relay.Relay, src app.Source, letters *deadletter.Resolver, listen *tail, reg prometheus.Gatherer, profile bool) admin.Options {
	started, version, group := time.Now(), buildVersion(), relaysOf(c)
	return admin.Options{
		Listen: c.HTTP.Listen, HealthListen: c.HTTP.HealthListen, WebConfig: c.HTTP.WebConfig, Gatherer: reg, Profile: profile,
		ClassicHistograms: c.HTTP.ClassicHistograms, TopicLabel: c.HTTP.TopicLabel,
		Actions: c.HTTP.Actions, Operators: c.HTTP.Operators, Desk: pageDesk(c, listen), Servers: servers(c),
		Peers: admin.Peers{URLs: c.HTTP.Peers, User: c.HTTP.PeersUser, Password: c.HTTP.PeersPassword.Reveal},
		Ready: func() error {
			if err := lettersFull(letters); err != nil && r.Status().State == relay.StateLeading { // the reason why Kafka acknowledges nothing
				return err
			}
			return r.Ready()
		},
		Live: func() error { return live(r.Status(), src.Status()) },
		Status: func() admin.Status {
			st := statusOf(r.Status(), src.Status(), db.Display)
			if st.Source.Database == "" { // a standby has not asked
				st.Source.Database = c.Database()
			}
			if st.State == string(relay.StateLeading) || st.State == string(relay.StateStopping) { // the others have not read them
				st.DeadLetters = letters.Summary()
			}
			st.Version, st.Revision, st.StartedAt, st.Group = version.Version, version.Revision, started, group
			return st
		},
	}
}

// servers are those of the configuration.
func servers(c *config.Config) admin.Servers {
	s := admin.Servers{Database: c.Server(), Kafka: strings.Join(c.Kafka.Brokers, ", "), Checkpoint: "the replication slot"}
	switch r := c.Checkpoint.Redis; {
	case app.PositionTopic(c) != "":
		s.Checkpoint = "topic " + c.Kafka.PositionTopic
	case r != nil:
		s.Checkpoint = "Redis " + strings.Join(r.Addrs, ", ")
	case c.Checkpoint.File != "":
		s.Checkpoint = "file " + c.Checkpoint.File
	}
	if p, m := c.Source.Postgres, c.Source.MySQL; p != nil {
		s.Visible = p.WaitUntilVisible
	} else {
		s.Visible = m.WaitUntilVisible
	}
	return s
}

// relaysOf is the same for all relays of one database, of which one leads. It tells nothing of the database.
func relaysOf(c *config.Config) string {
	id := c.Server() + "\x00" + c.Database()
	if p, m := c.Source.Postgres, c.Source.MySQL; p != nil {
		id += "\x00" + p.Slot
	} else {
		id += "\x00" + m.ID
	}
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:8])
}

// lettersFull is an error if nothing is published because there may be no more dead letters.
func lettersFull(letters *deadletter.Resolver) error {
	if s := letters.Summary(); s == nil || !s.Full {
		return nil
	}
	return cdc.Fixable("see the reasons with `cdc-relay dlq list`, and once they are repaired publish the letters with `cdc-relay dlq retry --all --yes`; drop those that nobody needs, or raise dead_letter.max_held_events",
		"nothing is published: there may be no more dead letters")
}

func live(r relay.Status, f cdc.SourceStatus) error {
	if r.State == relay.StateLeading && f.Connected && !f.LastTick.IsZero() && time.Since(f.LastTick) > stuckAfter {
		return cdc.Fixable("restart the relay and report this", "the replication connection was not served for %s", time.Since(f.LastTick).Round(time.Second))
	}
	return nil
}

func statusOf(r relay.Status, f cdc.SourceStatus, display func(cdc.Position) string) admin.Status {
	st := admin.Status{
		State: string(r.State), Since: r.Since, Connected: r.Connected, ConnectedSince: r.ConnectedSince, Stalled: r.Stalled, Leader: r.Leader,
		Source: admin.Source{SystemID: r.Source.SystemID, Database: r.Source.Database, Slot: r.Source.Slot, Timeline: r.Source.Timeline},
		Positions: admin.Positions{
			Received: f.Received, Acked: display(r.Acked), Saved: display(r.Checkpoint.Progress.Position), Confirmed: f.Confirmed,
		},
		Lag:      admin.Lag{Seconds: r.Lag.Seconds()},
		InFlight: admin.InFlight{Events: r.InFlightEvents, Bytes: r.InFlightBytes, Since: r.Unanswered},
		Checkpoint: admin.Checkpoint{
			Generation: r.Checkpoint.Generation, Sequence: r.Checkpoint.Sequence,
			SavedAt: r.Checkpoint.SavedAt, LastEventID: r.Checkpoint.LastEventID,
		},
	}
	if f.Slot != nil {
		st.Slot, st.Lag.Bytes = f.Slot, &f.Slot.LagBytes
	}
	for i := range r.Problems {
		p := &r.Problems[i]
		st.Problems = append(st.Problems, admin.Problem{With: string(p.With), Server: p.Server, Since: p.Since, Holds: p.Holds, Text: cdc.Explain(p.Err), Cause: p.Err.Error(), Fix: cdc.Fix(p.Err)})
	}
	if r.LastError != nil {
		st.LastError = &admin.Error{Text: cdc.Explain(r.LastError), Cause: r.LastError.Error(), Fix: cdc.Fix(r.LastError), At: r.LastErrAt, Past: r.LastPast}
		if r.LastPast { // its fix is not wanted any more
			st.LastError.Text, st.LastError.Fix = r.LastError.Error(), ""
		}
	}
	return st
}
