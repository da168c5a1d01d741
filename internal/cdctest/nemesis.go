package cdctest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// Action is a fault and its repair: when Do returns, the fault is over, although the relay may not have recovered yet.
type Action struct {
	Name string
	// Weight is the relative frequency; 0 is 1.
	Weight int
	Do     func(ctx context.Context, random *rand.Rand) error
}

// Nemesis takes random actions. The same seed takes the same actions in the same order.
type Nemesis struct {
	random  *rand.Rand
	actions []Action

	mu    sync.Mutex
	steps []Step
}

// Step is an action that was taken.
type Step struct {
	At   time.Time
	Name string
}

// String returns a line of a timeline.
func (s Step) String() string { return s.At.Format(clock) + " " + s.Name }

// NewNemesis returns a nemesis that draws from actions.
func NewNemesis(seed uint64, actions ...Action) *Nemesis {
	return &Nemesis{random: rand.New(rand.NewPCG(seed, 1)), actions: actions}
}

// actionTimeout is longer than any action takes.
const actionTimeout = 3 * time.Minute

// Step takes one action.
func (n *Nemesis) Step(ctx context.Context) error {
	action := n.draw()
	n.mu.Lock()
	n.steps = append(n.steps, Step{time.Now(), action.Name})
	n.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, Patience(actionTimeout))
	defer cancel()
	if err := action.Do(ctx, n.random); err != nil {
		return fmt.Errorf("nemesis: %s: %w", action.Name, err)
	}
	return nil
}

func (n *Nemesis) draw() Action {
	total := 0
	for _, a := range n.actions {
		total += max(1, a.Weight)
	}
	at := n.random.IntN(total)
	i := 0
	for at -= max(1, n.actions[0].Weight); at >= 0; at -= max(1, n.actions[i].Weight) {
		i++
	}
	return n.actions[i]
}

// Run takes actions with pauses of up to twice mean in between, until ctx ends.
func (n *Nemesis) Run(ctx context.Context, mean time.Duration) error {
	for pause(ctx, time.Duration(n.random.Int64N(int64(2*mean)))) {
		// Actions are not interrupted, so that each repairs what it broke.
		if err := n.Step(context.WithoutCancel(ctx)); err != nil {
			return err
		}
	}
	return nil
}

// Steps returns the actions taken.
func (n *Nemesis) Steps() []Step {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.steps)
}
