package visibility

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Answer is what the server said about its transactions, at one moment.
type Answer[T any] interface {
	// Shows reports whether a statement that begins after the answer sees tx. What an answer shows stays visible.
	Shows(tx T) bool
}

// Server is the connection that a gate asks. Connect and Ask compare the server with that of the stream: an answer of another one
// says nothing. An error with a fix ([cdc.FixableError], [cdc.StopError]) ends the attempt at once; after any other the gate
// connects once more.
type Server[T any] interface {
	// Connect opens the connection, and first closes one that is open.
	Connect(ctx context.Context) error
	Ask(ctx context.Context) (Answer[T], error)
	// Close may be called without a connection.
	Close()
}

// Options configure a Gate.
type Options struct {
	Log *slog.Logger
	// Serve is called between questions, so that the stream's connection is served. Its error ends the wait.
	Serve func(context.Context) error
	// Keep is how long an answer counts; 0: as long as the gate.
	Keep time.Duration
	// Problems is told of a wait of more than patience, which goes on.
	Problems *cdc.Problems
	// Fix says what to do about a commit that does not become visible.
	Fix string
}

const (
	// patience is how long a commit usually becomes visible within; see Options.Problems.
	patience = 10 * time.Second
	// questionTimeout bounds a question, and a connect. Both together stay below the time after which a server ends a stream
	// that is not served.
	questionTimeout = 3 * time.Second
	// soon is for how long questions follow each other without a pause: most commits are visible by then.
	soon                    = time.Millisecond
	shortPause, mediumPause = time.Millisecond, 5 * time.Millisecond
	// late is after which the commit waits for something slow, such as a standby.
	late      = 100 * time.Millisecond
	longPause = 50 * time.Millisecond
)

// Gate asks a server which transactions are visible, and keeps the last answer. It belongs to one goroutine.
type Gate[T fmt.Stringer] struct {
	server Server[T]
	opts   Options
	known  Answer[T] // nil: none; never of an earlier connection
	at     time.Time // when the question for known began
	open   bool
}

// New returns a gate that has not connected yet.
func New[T fmt.Stringer](server Server[T], o Options) *Gate[T] {
	return &Gate[T]{server: server, opts: o}
}

// Close closes the connection.
func (g *Gate[T]) Close() {
	g.server.Close()
	g.known, g.open = nil, false
}

// Wait returns nil once every one of txs is visible. An error, also that of ctx, means that none of them may be handed on.
func (g *Gate[T]) Wait(ctx context.Context, txs ...T) error {
	if g.opts.Keep > 0 && g.known != nil && time.Since(g.at) > g.opts.Keep {
		g.known = nil
	}
	hidden := g.hidden(txs)
	if len(hidden) == 0 {
		return nil
	}
	began, told := time.Now(), false
	defer func() {
		if told {
			g.opts.Problems.Report("visibility")
		}
	}()
	for {
		if err := g.ask(ctx); err != nil {
			return err
		}
		if hidden = g.hidden(hidden); len(hidden) == 0 {
			return nil
		}
		waited := time.Since(began)
		if waited >= patience && !told {
			g.tell(hidden[0], began)
			told = true
		}
		if err := g.rest(ctx, waited); err != nil {
			return err
		}
	}
}

// hidden returns txs from the first one on that the last answer does not show.
func (g *Gate[T]) hidden(txs []T) []T {
	for i, tx := range txs {
		if g.known == nil || !g.known.Shows(tx) {
			return txs[i:]
		}
	}
	return nil
}

// ask replaces the last answer. A connection that was lost is made again once. An error of Serve is none of the connection, and may come only
// once.
func (g *Gate[T]) ask(ctx context.Context) error {
	if g.open {
		if err := g.opts.Serve(ctx); err != nil {
			return err
		}
		err := g.question(ctx)
		if err == nil || ctx.Err() != nil || final(err) {
			return err
		}
		g.opts.Log.Info("the connection that asks which transactions are visible is made again", slog.Any("error", err))
	}
	if err := g.Open(ctx); err != nil {
		return err
	}
	return g.question(ctx)
}

func (g *Gate[T]) question(ctx context.Context) error {
	at := time.Now()
	asking, cancel := context.WithTimeout(ctx, questionTimeout)
	defer cancel()
	answer, err := g.server.Ask(asking)
	if err != nil {
		g.known = nil
		return fmt.Errorf("ask which transactions are visible: %w", cmp.Or(ctx.Err(), err))
	}
	g.known, g.at = answer, at
	return nil
}

// Open connects, so that the first question need not.
func (g *Gate[T]) Open(ctx context.Context) error {
	g.known, g.open = nil, false
	if err := g.opts.Serve(ctx); err != nil {
		return err
	}
	connecting, cancel := context.WithTimeout(ctx, questionTimeout)
	defer cancel()
	if err := g.server.Connect(connecting); err != nil {
		return fmt.Errorf("connect to ask which transactions are visible: %w", cmp.Or(ctx.Err(), err))
	}
	g.open = true
	return nil
}

func final(err error) bool {
	var fixable *cdc.FixableError
	var stop *cdc.StopError
	return errors.As(err, &fixable) || errors.As(err, &stop)
}

// tell says that tx is late.
func (g *Gate[T]) tell(tx T, since time.Time) {
	err := cdc.Fixable(g.opts.Fix, "%s is committed but not visible for more than %s, so its rows are held back", tx, patience)
	g.opts.Problems.Report("visibility", cdc.Problem{With: cdc.OnDatabase, Since: since, Holds: true, Err: err})
}

// rest pauses before the next question.
func (g *Gate[T]) rest(ctx context.Context, waited time.Duration) error {
	pause := longPause
	switch {
	case waited < soon:
		return nil
	case waited < late:
		pause = min(max(waited/4, shortPause), mediumPause)
	}
	return cdc.Sleep(ctx, pause)
}
