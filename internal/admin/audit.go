package admin

import (
	"slices"
	"sync"
	"time"
)

// keptActions is how many are kept.
const keptActions = 50

// action is what somebody asked for, and what became of it.
type action struct {
	At     time.Time `json:"at"`
	User   string    `json:"user"`
	Client string    `json:"client"`

	Resolve

	Result any    `json:"result,omitempty"`
	Error  string `json:"error,omitempty"`
}

// audit has the last actions of this process. The log has all of them.
type audit struct {
	mu   sync.Mutex
	list []action
}

func (x *audit) add(one action) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.list = append(x.list, one)
	x.list = x.list[max(0, len(x.list)-keptActions):]
}

func (x *audit) newest() []action {
	x.mu.Lock()
	defer x.mu.Unlock()
	list := append([]action{}, x.list...)
	slices.Reverse(list)
	return list
}
