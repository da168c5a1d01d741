// Package finding holds what the check command says, one line at a time. It imports only cdc: every stage reports in it.
package finding

import (
	"fmt"
	"strings"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Severity grades a [Finding].
type Severity string

// The severities.
const (
	// OK is something that was verified.
	OK Severity = "ok"
	// Info is worth knowing and needs nothing.
	Info Severity = "info"
	// Warn works today and may cost something one day.
	Warn Severity = "warn"
	// Fail keeps the relay from running.
	Fail Severity = "fail"
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

// Failed turns an error into a finding. Joined errors become one line without a fix of its own.
func Failed(subject string, err error) Finding {
	f := Finding{Severity: Fail, Subject: subject, Text: strings.ReplaceAll(err.Error(), "\n", "; "), Fix: cdc.Fix(err)}
	if f.Fix == "" && f.Text == err.Error() {
		f.Text, f.Fix = cutMend(f.Text)
	}
	return f
}

// cutMend cuts a sentence at its last colon that stands outside of brackets and quotes and is not part of a
// setting ("errors.too_large: drop").
func cutMend(sentence string) (cause, mend string) {
	cut, depth := -1, 0
	var quote rune
	for i, r := range sentence {
		switch {
		case quote != 0:
			if r == quote {
				quote = 0
			}
		case r == '"' || r == '`':
			quote = r
		case r == '(':
			depth++
		case r == ')':
			depth--
		case r == ':' && depth == 0 && strings.HasPrefix(sentence[i:], ": ") && !settingBefore(sentence[:i]):
			cut = i
		}
	}
	if cut < 0 {
		return sentence, ""
	}
	return sentence[:cut], sentence[cut+2:]
}

// settingBefore reports whether text ends in the name of a setting, told by its section: public.outbox is none.
func settingBefore(text string) bool {
	section, name, _ := strings.Cut(text[strings.LastIndexByte(text, ' ')+1:], ".")
	switch section {
	case "source", "kafka", "topics", "checkpoint", "position", "errors":
		return name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz_.") == ""
	default:
		return false
	}
}

// String renders the finding as a line for people, without its end.
func (f Finding) String() string {
	line := fmt.Sprintf("%-4s  %s: %s", f.Severity, f.Subject, cdc.Sentence(f.Text, f.Fix))
	if f.Fix == "" {
		line = strings.TrimSuffix(line, ".") + "."
	}
	return line
}
