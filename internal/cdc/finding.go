package cdc

import (
	"fmt"
	"strings"
	"time"
)

// Severity grades a [Finding].
type Severity string

// The severities.
const (
	// SeverityOK is something that was verified.
	SeverityOK Severity = "ok"
	// SeverityInfo is worth knowing and needs nothing.
	SeverityInfo Severity = "info"
	// SeverityWarn works today and may cost something one day.
	SeverityWarn Severity = "warn"
	// SeverityFail keeps the relay from running.
	SeverityFail Severity = "fail"
)

// Finding is one line of a check.
type Finding struct {
	Severity Severity `json:"status"`
	// Subject is what the finding is about: "slot".
	Subject string `json:"subject"`
	// Text is what was found, one line without a full stop.
	Text string `json:"text"`
	// Fix is what to do about it; "" when there is nothing to do.
	Fix string `json:"fix,omitempty"`
}

// FailedFinding turns an error into a finding, with joined errors in one line.
func FailedFinding(subject string, err error) Finding {
	return Finding{Severity: SeverityFail, Subject: subject, Text: strings.ReplaceAll(err.Error(), "\n", "; "), Fix: Fix(err)}
}

// String renders the finding as a line for people, without its end.
func (f Finding) String() string {
	line := fmt.Sprintf("%-4s  %s: %s", f.Severity, f.Subject, Sentence(f.Text, f.Fix))
	if f.Fix == "" {
		line = strings.TrimSuffix(line, ".") + "."
	}
	return line
}

// clocksApart is how far the clocks of two machines may be apart.
const clocksApart = 5 * time.Second

// HelpClock is the help text of cdc_relay_clock_skew_seconds.
const HelpClock = "How far the database's clock is ahead of the relay's, negative: behind; 0 within the time of a question."

// ClockAhead is how far the database's clock is ahead of that of this machine at least: it showed now at some time since asked.
func ClockAhead(asked, now time.Time) time.Duration {
	return max(time.Until(now), 0) + min(now.Sub(asked), 0)
}

// Clock warns of a clock that is far off.
func (r *Report) Clock(asked, now time.Time) {
	if ahead := ClockAhead(asked, now); ahead.Abs() > clocksApart {
		r.Warn("clock", "set the clocks of both machines, with NTP", "the database's clock is %s off this machine's (negative: behind it), and lag and ages are wrong by as much", ahead.Round(time.Second))
	}
}
