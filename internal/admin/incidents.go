package admin

import (
	"slices"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/display"
)

// keptIncidents is how many are kept.
const keptIncidents = 50

// incident is a time in which something was not as usual, or this relay led or stood by.
type incident struct {
	// What is kafka, database, checkpoint or write_back; leading, standby, takeover, parked or stopped; or stalled.
	What   string    `json:"what"`
	Server string    `json:"server,omitempty"`
	Cause  string    `json:"cause,omitempty"`
	From   time.Time `json:"from"`
	// To is its end; absent while it lasts.
	To time.Time `json:"to,omitzero"`
}

// incidents are the last ones, the oldest first.
type incidents struct {
	list []incident
}

// note compares the state with the one before.
func (x *incidents) note(st *Status, now time.Time) {
	var present []incident
	for _, p := range st.Problems {
		present = append(present, incident{What: p.With, Server: p.Server, Cause: display.Cut(p.Cause, longestText), From: p.Since})
	}
	if st.Stalled {
		present = append(present, incident{What: "stalled", From: now})
	}
	switch st.State {
	case "standby", "parked", "stopped":
		cause := st.Leader
		if st.LastError != nil && st.State != "standby" {
			cause = st.LastError.Cause
		}
		present = append(present, incident{What: st.State, From: st.Since, Cause: display.Cut(cause, longestText)})
	case "leading":
		what := "leading"
		if x.open("standby", "") || x.open("takeover", "") {
			what = "takeover"
		}
		present = append(present, incident{What: what, From: st.Since})
	}
	for i := range x.list {
		if old := &x.list[i]; old.To.IsZero() && !slices.ContainsFunc(present, old.is) {
			old.To = now
		}
	}
	for _, p := range present {
		if !x.open(p.What, p.Server) {
			x.list = append(x.list, p)
		}
	}
	x.list = x.list[max(0, len(x.list)-keptIncidents):]
}

func (i *incident) is(other incident) bool { return i.What == other.What && i.Server == other.Server }

// open reports whether one lasts.
func (x *incidents) open(what, server string) bool {
	return slices.ContainsFunc(x.list, func(i incident) bool { return i.is(incident{What: what, Server: server}) && i.To.IsZero() })
}

// newest returns them, that which began last first.
func (x *incidents) newest() []incident {
	list := append([]incident{}, x.list...)
	slices.Reverse(list)
	slices.SortStableFunc(list, func(a, b incident) int { return b.From.Compare(a.From) })
	return list
}
