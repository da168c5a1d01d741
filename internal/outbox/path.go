package outbox

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// step is a step of a path: to a member of an object, or to an element of an array.
type step struct {
	member string
	index  int // -1: to a member
}

// parsePath reads a path to a value in a document: $, then .name, ["any name"] and [0]. "" is $, the whole document.
func parsePath(path string) ([]step, error) {
	rest, ok := strings.CutPrefix(path, "$")
	if !ok && path != "" {
		return nil, cdc.Fixable(`write one such as $.type, $.events[0].id or $["event type"]`, "has the path %q, which does not begin with $", path)
	}
	var steps []step
	for rest != "" {
		var s step
		if s, rest, ok = cutStep(rest); !ok {
			return nil, cdc.Fixable(`write one such as $.type, $.events[0].id or $["event type"]`, "has the path %q, which cannot be read from %q on", path, rest)
		}
		steps = append(steps, s)
	}
	return steps, nil
}

// Member returns the part that is a member of the JSON object in a column.
func Member(column, name string) Part {
	quoted, _ := json.Marshal(name) // a text is always JSON
	return Part{JSON: column, Path: "$[" + string(quoted) + "]"}
}

// cutStep takes a step off the front of a path. If it cannot, it returns what it did not understand.
func cutStep(path string) (s step, rest string, ok bool) {
	switch {
	case path[0] == '.':
		end := strings.IndexAny(path[1:], ".[") + 1
		if end == 0 {
			end = len(path)
		}
		return step{path[1:end], -1}, path[end:], end > 1
	case strings.HasPrefix(path, `["`):
		d := json.NewDecoder(strings.NewReader(path[1:]))
		var name string
		if err := d.Decode(&name); err != nil {
			return step{}, path, false
		}
		rest, ok = strings.CutPrefix(path[1+d.InputOffset():], "]")
		return step{name, -1}, rest, ok
	case path[0] == '[':
		digits, rest, closed := strings.Cut(path[1:], "]")
		index, err := strconv.ParseUint(digits, 10, 31)
		if err != nil || !closed {
			return step{}, path, false
		}
		return step{index: int(index)}, rest, true
	}
	return step{}, path, false
}
