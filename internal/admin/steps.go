package admin

import (
	"fmt"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/display"
)

// step is one on the way of an event, with the server that it needs.
type step struct {
	// ID is database, read, visible, in_flight, kafka or saved.
	ID     string `json:"id"`
	Server string `json:"server,omitempty"`
	// State is ok, waiting, broken, unknown or off.
	State string    `json:"state"`
	Since time.Time `json:"since,omitzero"`
	// Latency is the median of the last seconds, in seconds.
	Latency *float64 `json:"latency,omitempty"`
	Text    string   `json:"text,omitempty"`
}

// Servers are those that the configuration names, for people.
type Servers struct {
	Database, Kafka, Checkpoint string
	// Visible says that an event waits until the database shows its row.
	Visible bool
}

// steps says where on their way events stand.
func steps(o *Options, st *Status, n, was *numbers, now time.Time) []step {
	s := situation{Status: *st, now: now}
	leads := st.State == "leading" || st.State == "stopping"
	list := []step{
		{ID: "database", Server: o.Servers.Database},
		{ID: "read", Text: st.Positions.Received},
		{ID: "visible", Text: "row can be read"},
		{ID: "in_flight", Text: fmt.Sprintf("%s, %s", display.Plural(st.InFlight.Events, "event"), display.Bytes(int64(st.InFlight.Bytes)))},
		{ID: "kafka", Server: o.Servers.Kafka, Latency: median(n.sent, was.sent)},
		{ID: "saved", Server: o.Servers.Checkpoint, Text: st.Positions.Saved},
	}
	for i := range list {
		if list[i].State = "ok"; !leads {
			list[i].State, list[i].Text, list[i].Latency = "off", "", nil
		}
	}
	database, read, visible, flight, kafka, saved := &list[0], &list[1], &list[2], &list[3], &list[4], &list[5]
	if !leads {
		database.State, kafka.State = "unknown", "unknown" // nobody asks them
	}
	broken := func(x *step, with string) {
		if found := s.problems(with); len(found) > 0 {
			x.State, x.Since, x.Text = "broken", found[0].Since, display.Cut(reasonOf("", found).Cause, longestText)
		}
	}
	if share, known := s.slotShare(); leads && known && share >= slotShare {
		database.State, database.Text = "waiting", fmt.Sprintf("slot %d %% used", int(share*100))
	}
	broken(database, "database")
	broken(kafka, "kafka")
	broken(saved, "checkpoint")
	if leads && !st.Connected {
		read.State, read.Since = "waiting", database.Since
		visible.State, visible.Text = "unknown", ""
	}
	if !o.Servers.Visible {
		visible.State, visible.Text = "off", ""
	}
	if waits := st.InFlight.Since; leads && !waits.IsZero() && (kafka.State == "broken" || now.Sub(waits) > silence) {
		flight.State, flight.Since = "waiting", waits
	}
	if leads && kafka.State == "ok" && st.Verdict != nil && st.Verdict.Cause == silent {
		kafka.State, kafka.Since, kafka.Text = "broken", st.InFlight.Since, "acknowledges nothing"
	}
	if leads && saved.State == "ok" && st.Checkpoint.SavedAt.IsZero() {
		saved.State, saved.Text = "unknown", ""
	}
	return list
}

func median(now, was buckets) *float64 { return known(now.since(was).quantile(.5)) }
