package cdc

import "fmt"

// Report gathers the findings of a check.
type Report struct {
	// Findings are in the order in which they were added.
	Findings []Finding
}

// add adds a finding; format and args make its text.
func (r *Report) add(severity Severity, subject, fix, format string, args ...any) {
	r.Findings = append(r.Findings, Finding{Severity: severity, Subject: subject, Text: fmt.Sprintf(format, args...), Fix: fix})
}

// OK adds what was verified.
func (r *Report) OK(subject, format string, args ...any) {
	r.add(SeverityOK, subject, "", format, args...)
}

// Info adds what is worth knowing.
func (r *Report) Info(subject, fix, format string, args ...any) {
	r.add(SeverityInfo, subject, fix, format, args...)
}

// Warn adds what may cost something one day.
func (r *Report) Warn(subject, fix, format string, args ...any) {
	r.add(SeverityWarn, subject, fix, format, args...)
}

// Fail adds an error that keeps the relay from running.
func (r *Report) Fail(subject string, err error) {
	r.Findings = append(r.Findings, FailedFinding(subject, err))
}

// Connection adds where the connection leads. tls is the protocol's name, "" without TLS, and verified whether the server's certificate was
// checked; fix is how to have that done.
func (r *Report) Connection(where, tls string, verified bool, fix string) {
	switch {
	case tls != "" && verified:
		r.OK("connection", "%s, %s", where, tls)
	case tls != "":
		r.Info("connection", fix, "%s, %s without verification of the server's certificate", where, tls)
	default: // config.Warnings tells of other machines that are reached without
		r.OK("connection", "%s, without TLS", where)
	}
}
