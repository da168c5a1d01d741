package admin

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/display"
)

// The states of a [Verdict].
const (
	Publishing    = "publishing"
	PublishingBut = "publishing_but"
	NotPublishing = "not_publishing"
	StandingBy    = "standing_by"
	Starting      = "starting"
	Stopping      = "stopping"
	Parked        = "parked"
)

// The levels of a [Verdict].
const (
	Good = "good"
	Warn = "warn"
	Bad  = "bad"
	Idle = "idle"
)

// Verdict says what the state of a relay means to who is on call: whether events are published, and if not, why, what to do about it, and
// how long that may take. It is part of the JSON at /status.
type Verdict struct {
	State string `json:"state"`
	Level string `json:"level"`
	Title string `json:"title"`
	// Since is when the state, or its cause, began.
	Since time.Time `json:"since"`
	// Cause is what happened, and Fix what to do, in full, of which Command can be copied if it is the only one.
	Cause   string `json:"cause,omitempty"`
	Fix     string `json:"fix,omitempty"`
	Command string `json:"command,omitempty"`
	// Effect is what becomes of events meanwhile.
	Effect string `json:"effect,omitempty"`
	// LostAt is when events are lost at the present speed; zero: not soon, or not known.
	LostAt time.Time `json:"lost_at,omitzero"`
	// Also are further reasons, the worst first.
	Also []Reason `json:"also,omitempty"`
}

// Reason is one that is not the first of a [Verdict].
type Reason struct {
	Title string `json:"title"`
	Cause string `json:"cause,omitempty"`
	Fix   string `json:"fix,omitempty"`
}

// cut is what is shown of it.
func (r Reason) cut() Reason {
	return Reason{display.Cut(r.Title, longestText), display.Cut(r.Cause, longestText), display.Escaped(r.Fix)}
}

// Leader is the relay for which this one stands by, as it answered last.
type Leader struct {
	Name string `json:"name"`
	URL  string `json:"url,omitempty"`
	// Publishing is absent if that is not known.
	Publishing *bool     `json:"publishing,omitempty"`
	AskedAt    time.Time `json:"asked_at,omitzero"`

	of Verdict
}

// situation is all that a verdict depends on.
type situation struct {
	Status

	now time.Time
	// moved is a time behind which Kafka has acknowledged events, the last one that is known; zero: none is.
	moved time.Time
	// walPerSecond is how much WAL the server writes; nil: not known.
	walPerSecond *float64
	// binlogKept is how long the server keeps a binlog, 0 until somebody removes it; nil: it has none, or that is not known.
	binlogKept *time.Duration
	leader     *Leader
	// gone is a standby that was there, and is not there any more; "": none is.
	gone string
	// before is the verdict until now.
	before Verdict
}

const (
	// silence is how long Kafka may acknowledge nothing before that is worth a word.
	silence = 10 * time.Second
	// settling is how long a part of Kafka or the database may be away before it counts: what a restart of one broker takes.
	settling = 5 * time.Second
	// looked is how old the last look at the slot may be to hold as the present state.
	looked = 15 * time.Second
	// soon is how little time before a loss makes it the worst that can be.
	soon = 30 * time.Minute
	// late is how far behind events are before that is worth a word.
	late = time.Minute
	// slotShare is how much of what the slot may keep is worth a word.
	slotShare = 0.7
	// silent is why nothing is published although Kafka has no problem that it tells.
	silent = "Kafka acknowledges nothing"
	// slotLost is what becomes of events when a slot is lost.
	slotLost = " At this speed the slot is lost at %s, and with it what is not published by then."
	// longestText of others' in a verdict, in characters.
	longestText = 300
)

// verdictOf has no state: the same situation gives the same verdict.
func verdictOf(s *situation) Verdict {
	v := s.stateVerdict()
	v.Cause, v.Fix = display.Cut(v.Cause, longestText), display.Escaped(v.Fix)
	if v.Since.IsZero() {
		v.Since = s.now
		if s.before.State == v.State && (v.State != PublishingBut || s.before.Fix == v.Fix) { // other words have numbers
			v.Since = s.before.Since
		}
	}
	if command := regexp.MustCompile("^[^`]*`((cdc-relay|SELECT) [^`]+)`[^`]*$").FindStringSubmatch(v.Fix); command != nil {
		v.Command = command[1]
	}
	return v
}

func (s *situation) stateVerdict() Verdict {
	switch s.State {
	case "standby":
		return s.standingBy()
	case "starting":
		return s.starting()
	case "stopping":
		v := Verdict{State: Stopping, Level: Idle, Title: "Stopping", Since: s.Since, Effect: "No event is lost. The relay ends once these are acknowledged; what is not saved by then is published again."}
		if n := s.InFlight.Events; n > 0 {
			v.Title = fmt.Sprintf("Stopping: %s left", display.Plural(n, "event"))
		}
		v.Cause, v.Fix = "it was told to stop", "nothing: it ends by itself, and another relay may take over"
		if e := s.LastError; e != nil && !e.Past { // a problem with a server if nothing else ends it
			v.Level, v.Cause, v.Fix = Warn, e.Cause, e.Fix
		}
		return v
	case "stopped", "parked":
		v := Verdict{State: Parked, Level: Bad, Title: "Not publishing: parked", Since: s.Since}
		if s.State == "stopped" {
			v.Title = "Stopped"
		}
		if s.LastError != nil {
			v.Cause, v.Fix = s.LastError.Cause, s.LastError.Fix
		}
		if s.State == "parked" && !strings.Contains(v.Fix, "restart the relay") {
			v.Fix = strings.TrimPrefix(v.Fix+", then restart the relay", ", then ")
		}
		v.Effect, v.LostAt = s.kept()
		return v
	}
	return s.leading()
}

func (s *situation) leading() Verdict {
	stops, doubts := s.stops(), s.doubts()
	if len(stops) == 0 && !s.Connected && len(s.problems("database")) == 0 && !s.ConnectedSince.After(s.Since) {
		return Verdict{State: Starting, Level: Idle, Title: "Starting: connecting to the database", Since: s.Since}
	}
	all := slices.Concat(stops, doubts)
	if len(all) == 0 {
		return Verdict{State: Publishing, Level: Good, Title: "Publishing"}
	}
	v := all[0]
	v.State, v.Level, v.Title = PublishingBut, Warn, "Publishing, but "+v.Title
	if len(stops) > 0 {
		v.State, v.Level, v.Title = NotPublishing, Bad, "Not publishing"
		v.Effect, v.LostAt = s.kept()
		for i := range stops {
			if since := stops[i].Since; !since.IsZero() && since.Before(v.Since) {
				v.Since = since
			}
		}
		if s.before.State == NotPublishing && s.before.Since.Before(v.Since) { // what has failed since does not begin it anew
			v.Since = s.before.Since
		}
	}
	if !v.LostAt.IsZero() && v.LostAt.Sub(s.now) < soon {
		v.Level = Bad
	}
	for i := range all[1:] {
		other := &all[i+1]
		v.Also = append(v.Also, Reason{other.Title, other.Cause, other.Fix}.cut())
	}
	return v
}

// problems are those with a server.
func (s *Status) problems(with string) (found []Problem) {
	for _, p := range s.Problems {
		if p.With == with {
			found = append(found, p)
		}
	}
	return found
}

// reasonOf is the first of some problems with a server, and how many more there are.
func reasonOf(title string, found []Problem) Verdict {
	p := &found[0]
	cause := p.Cause
	if !strings.Contains(cause, p.Server) {
		cause = p.Server + ": " + cause
	}
	if more := len(found) - 1; more > 0 {
		cause += fmt.Sprintf(" (and %d more)", more)
	}
	return Verdict{Title: title, Cause: cause, Fix: p.Fix, Since: p.Since}
}

// stops are why nothing is published.
func (s *situation) stops() (all []Verdict) {
	full := s.DeadLetters != nil && s.DeadLetters.Full
	if d := s.DeadLetters; full {
		all = append(all, Verdict{
			Title: "there may be no more dead letters", Cause: "there may be no more dead letters: " + display.Plural(d.Events, "dead letter"),
			Fix: "see the reasons with `cdc-relay dlq list`, then retry or drop letters, or raise dead_letter.max_held_events",
		})
	}
	database, kafka := s.problems("database"), s.problems("kafka")
	if s.Connected {
		database = s.holding(database)
	}
	switch {
	case len(database) > 0:
		all = append(all, reasonOf("the database is away", database))
	case s.Connected:
	case s.now.Sub(s.Since) > settling && s.now.Sub(s.ConnectedSince) > settling:
		all = append(all, Verdict{Title: "the WAL or binlog is not read", Cause: "the WAL or binlog is not read", Fix: "see the relay's log"})
	}
	switch waits := s.InFlight.Since; {
	case len(kafka) > 0 && !s.goesOn(kafka[0].Since):
		all = append(all, reasonOf("Kafka is away", kafka))
	case !full && !waits.IsZero() && s.now.Sub(waits) > silence && !s.goesOn(waits):
		all = append(all, Verdict{
			Title: silent, Cause: silent, Since: waits,
			Fix: "see with `cdc-relay check` which partitions lack a leader or in-sync replicas, and whether its brokers are reachable",
		})
	}
	return all
}

// holding returns those of the problems with the database that hold events back. What was acknowledged after they began may have been handed
// on before.
func (s *situation) holding(database []Problem) []Problem {
	return slices.DeleteFunc(slices.Clone(database), func(p Problem) bool {
		return !p.Holds || s.now.Sub(p.Since) < settling || s.moved.After(p.Since) && s.now.Sub(s.moved) < 3*silence
	})
}

// goesOn reports whether events are acknowledged in spite of what began at since.
func (s *situation) goesOn(since time.Time) bool {
	if s.now.Sub(since) < settling {
		return true
	}
	return s.moved.After(since) && (s.InFlight.Events == 0 || s.now.Sub(s.moved) < 3*silence)
}

// doubts are what is not as it should be although events are published, the worst first.
func (s *situation) doubts() (all []Verdict) {
	if share, known := s.slotShare(); known && share >= slotShare {
		effect, at := s.threat("Events are published.")
		all = append(all, Verdict{
			Title: fmt.Sprintf("the slot has used %d %% of its limit", int(share*100)), Cause: fmt.Sprintf("slot %s keeps %s of WAL, and may keep %s more", s.Source.Slot, display.Bytes(s.Slot.RetainedBytes), display.Bytes(*s.Slot.SafeBytes)),
			Fix: "see the oldest transaction with `SELECT pid, xact_start, query FROM pg_stat_activity ORDER BY xact_start`, and end it with pg_terminate_backend(pid) if it is hours old; otherwise raise max_slot_wal_keep_size", Effect: effect, LostAt: at,
		})
	}
	for _, known := range []struct{ with, title, effect string }{
		{"checkpoint", "the position is not saved", "Events are published; those since the last saved position are published again after a crash."},
		{"kafka", "a part of Kafka is away", "No event is lost: those for it wait."},
		{"database", "the database does not answer everything", "No event is lost: none is confirmed to the database, which keeps its WAL or binlog up to a limit."},
		{"write_back", "published rows are not marked", "Events are published; their rows stay as they are."},
	} {
		found := s.problems(known.with)
		if len(found) == 0 || known.with == "database" && (!s.Connected || len(s.holding(found)) > 0) || known.with == "kafka" && !s.goesOn(found[0].Since) {
			continue
		}
		r := reasonOf(known.title, found)
		if r.Effect = known.effect; known.with == "checkpoint" && s.Slot != nil {
			r.Effect, r.LostAt = s.threat(known.effect)
		}
		all = append(all, r)
	}
	if lag := time.Duration(s.Lag.Seconds * float64(time.Second)); lag > late && s.Connected && len(s.stops()) == 0 {
		late, cause := lag.Truncate(time.Second).String(), "the oldest event that Kafka has not acknowledged is %s old"
		if s.InFlight.Since.IsZero() {
			cause = "the WAL or binlog is read %s behind: the server reads a large transaction, sends changes of other tables, or is a replica that lags"
		}
		all = append(all, Verdict{Title: "events are " + late + " late", Cause: fmt.Sprintf(cause, late), Effect: "No event is lost: the relay catches up."})
	}
	if d := s.DeadLetters; d != nil && d.Events > 0 && !d.Full {
		all = append(all, Verdict{
			Title: display.Plural(d.Events, "dead letter"), Cause: fmt.Sprintf("%s could not be published, and %d are held behind them: each has its reason", display.Plural(d.Events-d.Held, "event"), d.Held), Since: d.Oldest,
			Fix: "see why with `cdc-relay dlq list --by cause`, correct that, then retry them", Effect: "All other events are published.",
		})
	}
	if s.gone != "" {
		all = append(all, Verdict{
			Title: "no standby answers", Cause: s.gone + " stood by, and does not answer", Fix: "start it if it does not run; if it does, see why this relay does not reach it",
			Effect: "No event is lost. If it does not run, nobody takes over when this relay ends.",
		})
	}
	return all
}

// threat adds when the slot is lost, if that can be told.
func (s *situation) threat(effect string) (string, time.Time) {
	_, at := s.kept()
	if !at.IsZero() {
		effect += fmt.Sprintf(slotLost, at.UTC().Format(time.RFC3339))
	}
	return effect, at
}

// slotShare is how much of its limit the slot has used.
func (s *situation) slotShare() (share float64, known bool) {
	if !s.slotKnown() || s.Slot.SafeBytes == nil {
		return 0, false
	}
	return float64(s.Slot.RetainedBytes) / max(1, float64(s.Slot.RetainedBytes+*s.Slot.SafeBytes)), true
}

// slotKnown reports whether what was seen of the slot holds now.
func (s *situation) slotKnown() bool { return s.Slot != nil && s.now.Sub(s.Slot.AskedAt) < looked }

// kept says where events wait, for how long they may, and when they are lost at the speed of the last minutes.
func (s *situation) kept() (effect string, lostAt time.Time) {
	effect = "No event is lost: they wait in the database"
	switch at := lostWith(s.binlogKept, s.Lag.Seconds, s.now); {
	case s.binlogKept != nil && *s.binlogKept == 0:
		return effect + "'s binlog, which is kept until somebody removes it.", time.Time{}
	case s.binlogKept != nil && !at.IsZero() && at.Before(s.now):
		return "The oldest events may be lost: the server keeps its binlogs for " + s.binlogKept.String() + ".", at
	case s.binlogKept != nil && !at.IsZero():
		return effect + "'s binlog, which is kept until " + at.UTC().Format(time.RFC3339) + ".", at
	case s.Slot == nil:
		return effect + ".", time.Time{}
	case !s.slotKnown():
		return fmt.Sprintf("Events wait in the database's WAL, of which the slot kept %s at %s; how much it keeps now is not known.", display.Bytes(s.Slot.RetainedBytes), s.Slot.AskedAt.UTC().Format(time.RFC3339)), time.Time{}
	case s.Slot.SafeBytes == nil:
		return effect + "'s WAL, which has no limit but the disk.", time.Time{}
	case s.walPerSecond == nil:
		return effect + "'s WAL, which keeps " + display.Bytes(*s.Slot.SafeBytes) + " more. How fast it grows is not known yet.", time.Time{}
	case *s.walPerSecond < 1:
		return effect + "'s WAL, which does not grow now.", time.Time{}
	}
	lostAt = s.Slot.AskedAt.Add(time.Duration(float64(*s.Slot.SafeBytes) / *s.walPerSecond * float64(time.Second))).Truncate(time.Second)
	return effect + "'s WAL." + fmt.Sprintf(slotLost, lostAt.UTC().Format(time.RFC3339)), lostAt
}

// lostWith is when the server removes the binlog with the oldest event that waits.
func lostWith(kept *time.Duration, lag float64, now time.Time) time.Time {
	if kept == nil || *kept == 0 || lag <= 0 {
		return time.Time{}
	}
	return now.Add(*kept - time.Duration(lag*float64(time.Second))).Truncate(time.Second)
}

func (s *situation) starting() Verdict {
	v := Verdict{State: Starting, Level: Idle, Title: "Starting", Since: s.Since}
	names := map[string]string{"database": "the database", "kafka": "Kafka", "checkpoint": "the checkpoint store"}
	first := slices.IndexFunc(s.Problems, func(p Problem) bool { return names[p.With] != "" })
	if first < 0 {
		return v
	}
	with := s.Problems[first].With
	v = reasonOf("Starting: waiting for "+names[with], s.problems(with))
	v.State, v.Level = Starting, Bad
	if s.now.Sub(s.Since) < 3*silence {
		v.Level = Warn
	}
	if v.Effect = "This relay publishes nothing meanwhile. Unless another one leads, events wait in the database."; with == "kafka" { // it has the slot or lock
		v.Effect, v.LostAt = s.kept()
	}
	return v
}

func (s *situation) standingBy() Verdict {
	v := Verdict{State: StandingBy, Level: Idle, Since: s.Since, Effect: "This relay takes over when the leader stops."}
	switch l := s.leader; {
	case l == nil || l.Publishing == nil:
		v.Title = "Standing by: whether the leader publishes is not known"
		v.Cause, v.Fix = s.Leader, "look at the leader's page; with http.peers this relay asks it"
	case *l.Publishing:
		v.Title = "Standing by for " + l.Name + ", which publishes"
	default:
		v.Level, v.Title, v.Since = Bad, "Standing by for "+l.Name+", which does not publish", l.of.Since
		v.Cause, v.Fix = cmp.Or(l.of.Cause, l.of.Title), cmp.Or(l.of.Fix, "look at the leader's page")
		v.Effect = cmp.Or(l.of.Effect, v.Effect)
	}
	for i, p := range s.Problems {
		r := reasonOf("", s.Problems[i:i+1])
		if v.Level == Idle {
			v.Level, v.Since, v.Cause, v.Fix, v.Effect = Warn, r.Since, r.Cause, r.Fix, "This relay cannot take over meanwhile."
			continue
		}
		v.Also = append(v.Also, Reason{"a problem with " + p.With, r.Cause, r.Fix}.cut())
	}
	return v
}
