package checkpoint

import "errors"

// Severity grades a [Finding].
type Severity string

// The severities.
const (
	// OK is something that was proved to work.
	OK Severity = "ok"
	// Info is worth knowing and needs nothing.
	Info Severity = "info"
	// Warning works today and may cost duplicates one day.
	Warning Severity = "warning"
	// Error keeps the relay from running.
	Error Severity = "error"
)

// Finding is one line of the check command.
type Finding struct {
	Severity Severity
	// Code names the finding for machines, in snake_case: "redis_eviction".
	Code string
	// Text is what was found, one line.
	Text string
	// Mend is what to do about it; "" when there is nothing to do.
	Mend string
}

// failed turns an error into a finding.
func failed(code string, err error) Finding {
	f := Finding{Severity: Error, Code: code, Text: err.Error()}
	if t, ok := errors.AsType[*trouble](err); ok {
		f.Text, f.Mend = t.what, t.mend
	}
	return f
}
