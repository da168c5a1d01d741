package main

import (
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

// failed turns an error into a finding: errors of this project end in a colon and their mend. Joined
// errors (one for each broker) become one line.
func failed(subject string, err error) finding {
	f := finding{Status: statusFail, Subject: subject, Text: strings.ReplaceAll(err.Error(), "\n", "; ")}
	if f.Text == err.Error() {
		f.Text, f.Mend = cutMend(f.Text)
	}
	return f
}

// cutMend cuts a sentence at its last colon that is not part of a setting ("errors.too_large: drop").
func cutMend(sentence string) (cause, mend string) {
	for i := strings.LastIndex(sentence, ": "); i > 0; i = strings.LastIndex(sentence[:i], ": ") {
		if !settingBefore(sentence[:i]) {
			return sentence[:i], sentence[i+2:]
		}
	}
	return sentence, ""
}

// settingBefore reports whether text ends in the name of a setting.
func settingBefore(text string) bool {
	word := text[strings.LastIndexByte(text, ' ')+1:]
	return strings.Contains(word, ".") && strings.Trim(word, "abcdefghijklmnopqrstuvwxyz_.") == ""
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
