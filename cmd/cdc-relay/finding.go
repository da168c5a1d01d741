package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cdc-relay/cdc-relay/internal/checkpoint"
	"github.com/cdc-relay/cdc-relay/internal/wal"
)

// status grades a finding for people.
type status string

// The statuses; fail alone makes the check fail.
const (
	statusOK   status = "ok"
	statusInfo status = "info"
	statusWarn status = "warn"
	statusFail status = "fail"
)

// finding is one line of the check command.
type finding struct {
	Status  status `json:"status"`
	Subject string `json:"subject"`
	// Text is what was found, Mend what to do about it; "" when there is nothing to do.
	Text string `json:"text"`
	Mend string `json:"mend,omitempty"`
}

// failed turns an error into a finding: errors of this project end in a colon and their mend.
func failed(subject string, err error) finding {
	var lines []string
	for _, e := range flatten(err) {
		lines = append(lines, e.Error())
	}
	f := finding{Status: statusFail, Subject: subject, Text: strings.Join(lines, "; ")}
	if i := strings.LastIndex(f.Text, ": "); i > 0 && len(lines) == 1 {
		f.Text, f.Mend = f.Text[:i], f.Text[i+2:]
	}
	return f
}

// flatten takes joined errors apart.
func flatten(err error) []error {
	var many interface{ Unwrap() []error }
	if errors.As(err, &many) {
		return many.Unwrap()
	}
	return []error{err}
}

func (f finding) String() string {
	line := fmt.Sprintf("%-4s  %s: %s.", f.Status, f.Subject, strings.TrimSuffix(f.Text, "."))
	if f.Mend == "" {
		return line
	}
	line += " Mend: " + f.Mend
	if !strings.HasSuffix(line, "?") {
		line += "."
	}
	return line
}

func fromDatabase(f wal.Finding) finding {
	return finding{databaseStatus(f.Severity), f.Subject, f.Text, f.Mend}
}

func databaseStatus(s wal.Severity) status {
	switch s {
	case wal.OK:
		return statusOK
	case wal.Info:
		return statusInfo
	case wal.Warning:
		return statusWarn
	default:
		return statusFail
	}
}

func checkpointStatus(s checkpoint.Severity) status {
	switch s {
	case checkpoint.OK:
		return statusOK
	case checkpoint.Info:
		return statusInfo
	case checkpoint.Warning:
		return statusWarn
	default:
		return statusFail
	}
}
