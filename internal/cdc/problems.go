package cdc

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// Dependency is a server that a relay needs.
type Dependency string

// The dependencies. The topic of positions is part of Kafka.
const (
	OnDatabase   Dependency = "database"
	OnKafka      Dependency = "kafka"
	OnCheckpoint Dependency = "checkpoint"
	// OnRows is no server: rows of published events are not marked, which holds up no event.
	OnRows Dependency = "write_back"
)

// HelpErrors is the help text of cdc_relay_errors_total, which several packages count.
const HelpErrors = "Errors after which it is tried again, by component: database, kafka (the relay starts again; failed sends are publish_errors_total), checkpoint, partitions, deletion, write_back."

// dependencyError says which dependency an error is about.
type dependencyError struct {
	error

	of Dependency
}

func (e *dependencyError) Unwrap() error { return e.error }

// About returns err as one about d, unless err says already which dependency it is about.
func About(d Dependency, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*dependencyError](err); ok {
		d = e.of
	}
	return &dependencyError{err, d}
}

// DependencyOf returns what the error of a start is about: the database, unless it says something else.
func DependencyOf(err error) Dependency {
	if e, ok := errors.AsType[*dependencyError](err); ok {
		return e.of
	}
	return OnDatabase
}

// Problem is what is wrong with a dependency at present.
type Problem struct {
	With Dependency
	// Server is its address if there are several, as of Kafka's brokers; "" if Err names it.
	Server string
	// Since is when it was first noticed; of a server that is silent, when it was asked.
	Since time.Time
	// Holds says that it holds events back while the WAL or binlog is read.
	Holds bool
	// Err names the server, what happened, and as a rule the fix.
	Err error
}

// Error returns the cause without the fix, with the time since which it lasts; see [Explain].
func (p *Problem) Error() string {
	return fmt.Sprintf("%s, since %s: %v", p.With, p.Since.UTC().Format(time.RFC3339), p.Err)
}

func (p *Problem) Unwrap() error { return p.Err }

// Problems are those that a relay has at present. Each stage reports what it meets, and reports again at its next success.
// The zero value has none. Its methods may be called from any goroutine.
type Problems struct {
	mu sync.Mutex
	by map[string][]Problem

	log     *slog.Logger // nil: nothing is logged
	lasting map[Dependency]*lasting
}

// Report replaces what the reporter has reported before. Problems without Since began now, or when the reporter first
// reported one with the same server.
func (p *Problems) Report(reporter string, found ...Problem) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.by[reporter]
	for i := range found {
		f := &found[i]
		same := slices.IndexFunc(before, func(b Problem) bool { return b.With == f.With && b.Server == f.Server })
		switch {
		case !f.Since.IsZero():
		case same >= 0:
			f.Since = before[same].Since
		default:
			f.Since = time.Now()
		}
	}
	if p.by == nil {
		p.by = map[string][]Problem{}
	}
	p.by[reporter] = found
	p.follow()
}

// Clear forgets all problems.
func (p *Problems) Clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.by)
	for _, l := range p.lasting {
		l.timer.Stop()
	}
	clear(p.lasting)
}

// List returns the problems, the oldest first.
func (p *Problems) List() []Problem {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.list()
}

func (p *Problems) list() []Problem {
	var all []Problem
	for _, found := range p.by {
		all = append(all, found...)
	}
	slices.SortFunc(all, func(a, b Problem) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.With, b.With), cmp.Compare(a.Server, b.Server))
	})
	return all
}
