package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cdc-relay/cdc-relay/internal/admin"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/display"
)

// statusTimeout limits the request to a running relay.
const statusTimeout = 5 * time.Second

func newStatusCommand(a *cli) *cobra.Command {
	var (
		output  outputFlag
		url, ca string
	)
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the state of a running relay",
		Long: `Show the state of a running relay. It is read from the relay's HTTP endpoint: http.listen of the configuration on
this machine, or --url.`,
		Example: `  cdc-relay status
  cdc-relay status --url http://relay-1:9464 -o json
  cdc-relay status --url https://relay-1:9464 --ca ca.pem`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			base, secure, err := a.relayAddress(url, ca)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), statusTimeout)
			defer cancel()
			st, err := admin.Fetch(ctx, base, secure)
			if err != nil {
				return err
			}
			return output.print(a, &st, func() {
				for _, line := range statusLines(&st, time.Now()) {
					a.printf("%-14s %s\n", line[0], display.Escaped(line[1]))
				}
			})
		},
	}
	output.add(cmd)
	cmd.Flags().StringVar(&url, "url", "", "`address` of the relay, with user:password@ if it requires them (default from http.listen)")
	cmd.Flags().StringVar(&ca, "ca", "", "PEM `file` of the authority to trust for https (default the system's)")
	return cmd
}

// relayAddress returns the relay's URL and the TLS settings for it.
func (a *cli) relayAddress(url, ca string) (string, *tls.Config, error) {
	var secure *tls.Config
	if ca != "" {
		var err error
		if secure, err = (&config.TLS{CA: ca}).ClientConfig(); err != nil {
			return "", nil, cdc.Usage("", "--ca: %w", err)
		}
	}
	if url != "" {
		return url, secure, nil
	}
	c, err := a.load()
	if err != nil {
		return "", nil, err
	}
	if c.HTTP.Listen == "" {
		return "", nil, cdc.Usage("set it, or give --url", "http.listen is empty, so the relay does not serve its status")
	}
	base, err := admin.URL(c.HTTP.Listen)
	return base, secure, err
}

func statusLines(st *admin.Status, now time.Time) [][2]string {
	var lines [][2]string
	if v := st.Verdict; v != nil {
		lines = append(lines, [2]string{"verdict", v.Title + lasting(now, v)})
		for _, also := range v.Also {
			lines = append(lines, [2]string{"and", also.Title})
		}
		if v.Cause != "" && len(st.Problems) == 0 && v.State != admin.Parked { // other lines say those
			lines = append(lines, [2]string{"cause", cdc.Sentence(v.Cause, v.Fix)})
		}
		if v.Effect != "" {
			lines = append(lines, [2]string{"effect", v.Effect})
		}
	}
	lines = append(lines, [][2]string{
		{"state", fmt.Sprintf("%s for %s%s", st.State, age(now, st.Since), readiness(st))},
		{"database", sourceText(&st.Source) + connection(st)},
		{"lag", lagText(st)},
		{"in flight", fmt.Sprintf("%d events, %s", st.InFlight.Events, display.Bytes(int64(st.InFlight.Bytes)))},
		{"published", fmt.Sprintf("%.0f events in %s", st.Counters["events_published"], age(now, st.StartedAt))},
		{"received", display.OrNone(st.Positions.Received)},
		{"acknowledged", display.OrNone(st.Positions.Acked)},
		{"saved", display.OrNone(st.Positions.Saved) + saved(st, now)},
		{"confirmed", display.OrNone(st.Positions.Confirmed)},
	}...)
	if st.Slot != nil {
		lines = append(lines, [2]string{"slot", slotText(st.Slot, now)})
	}
	if st.DeadLetters != nil {
		lines = append(lines, [2]string{"dead letters", lettersText(st.DeadLetters, now)})
	}
	if st.Leader != "" {
		lines = append(lines, [2]string{"leader", st.Leader})
	}
	for _, p := range st.Problems {
		lines = append(lines, [2]string{"problem", fmt.Sprintf("%s for %s: %s", strings.Join(strings.Fields(p.With+" "+p.Server), " "), age(now, p.Since), p.Text)})
	}
	switch e := st.LastError; {
	case e != nil && e.Past:
		lines = append(lines, [2]string{"past error", fmt.Sprintf("%s ago, no longer so: %s", age(now, e.At), e.Text)})
	case e != nil && len(st.Problems) == 0:
		lines = append(lines, [2]string{"last error", fmt.Sprintf("%s ago: %s", age(now, e.At), e.Text)})
	}
	return append(lines, [2]string{"version", st.Version + display.Suffix(" ", st.Revision)})
}

// lasting is for how long a verdict lasts that is not good.
func lasting(now time.Time, v *admin.Verdict) string {
	if v.Level == admin.Good || v.State == admin.StandingBy {
		return ""
	}
	return " for " + age(now, v.Since)
}

// sourceText identifies the WAL by slot and system, or the binlog by the ID that checkpoints have.
func sourceText(s *admin.Source) string {
	if s.Slot == "" {
		return fmt.Sprintf("%s, binlog %s", s.Database, s.SystemID)
	}
	return fmt.Sprintf("%s, slot %s, system %s, timeline %d", s.Database, s.Slot, s.SystemID, s.Timeline)
}

// age is how long ago something was, to the second.
func age(now, then time.Time) string { return now.Sub(then).Truncate(time.Second).String() }

func readiness(st *admin.Status) string {
	if st.Ready {
		return ", ready"
	}
	return ", not ready" + display.Suffix(": ", st.NotReady)
}

func connection(st *admin.Status) string {
	switch {
	case st.Stalled:
		return ", stalled: Kafka does not acknowledge"
	case !st.Connected:
		return ", not connected"
	default:
		return ""
	}
}

func lagText(st *admin.Status) string {
	text := time.Duration(st.Lag.Seconds * float64(time.Second)).Round(time.Millisecond).String()
	if st.Lag.Bytes != nil {
		text += ", " + display.Bytes(*st.Lag.Bytes) + " of WAL"
	}
	return text
}

func saved(st *admin.Status, now time.Time) string {
	if st.Checkpoint.SavedAt.IsZero() {
		return ""
	}
	text := fmt.Sprintf(", %s ago, generation %d", age(now, st.Checkpoint.SavedAt), st.Checkpoint.Generation)
	return text + display.Suffix(", last event ", st.Checkpoint.LastEventID)
}

func lettersText(l *cdc.DeadLetters, now time.Time) string {
	if l.Events == 0 {
		return "none"
	}
	return fmt.Sprintf("%s, %d of them held, of %s; the oldest for %s", display.Plural(l.Events, "event"), l.Held, display.Plural(l.Keys, "key"), age(now, l.Oldest))
}

func slotText(s *cdc.SlotStatus, now time.Time) string {
	text := fmt.Sprintf("%s, keeps %s of WAL", s.Status, display.Bytes(s.RetainedBytes))
	if old := now.Sub(s.AskedAt); old > time.Minute {
		return text + ", as it was " + age(now, s.AskedAt) + " ago"
	}
	if s.SafeBytes != nil {
		text += fmt.Sprintf(", %s more until it is in danger", display.Bytes(*s.SafeBytes))
	}
	return text
}
