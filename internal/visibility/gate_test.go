package visibility_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/visibility"
)

type tx int

func (t tx) String() string { return "transaction " + strconv.Itoa(int(t)) }

// upTo shows every transaction up to a number.
type upTo tx

func (u upTo) Shows(t tx) bool { return t <= tx(u) }

// fakeServer answers from a script, a function of the question's number, from 1.
type fakeServer struct {
	answer    func(question int) (tx, error)
	refuses   error // to connect
	questions int
	connects  int
	closed    bool
}

func (f *fakeServer) Connect(context.Context) error { f.connects++; return f.refuses }
func (f *fakeServer) Close()                        { f.closed = true }

func (f *fakeServer) Ask(context.Context) (visibility.Answer[tx], error) {
	<-time.After(100 * time.Microsecond) // no question is for nothing
	f.questions++
	t, err := f.answer(f.questions)
	return upTo(t), err
}

func newGate(f *fakeServer, change func(*visibility.Options)) *visibility.Gate[tx] {
	o := visibility.Options{
		Log: slog.New(slog.DiscardHandler), Fix: "see why", Problems: new(cdc.Problems),
		Serve: func(context.Context) error { return nil },
	}
	if change != nil {
		change(&o)
	}
	return visibility.New[tx](f, o)
}

func always(t tx) func(int) (tx, error) { return func(int) (tx, error) { return t, nil } }

func TestAnAnswerIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeServer{answer: func(n int) (tx, error) { return tx(10 * n), nil }}
		g := newGate(f, func(o *visibility.Options) { o.Keep = time.Hour })
		require.NoError(t, g.Wait(t.Context(), 3, 7))
		require.NoError(t, g.Wait(t.Context(), 10))
		assert.Equal(t, 1, f.questions, "the answer shows both batches")
		require.NoError(t, g.Wait(t.Context(), 9, 11))
		assert.Equal(t, 2, f.questions, "it does not show all of the third")
		<-time.After(time.Hour + time.Second)
		require.NoError(t, g.Wait(t.Context(), 1))
		assert.Equal(t, 3, f.questions, "it is too old")
		assert.Equal(t, 1, f.connects)
		g.Close()
		assert.True(t, f.closed)
	})
}

func TestEveryTransactionIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeServer{answer: func(n int) (tx, error) { return tx(n), nil }}
		require.NoError(t, newGate(f, nil).Wait(t.Context(), 1, 2, 5, 4))
		assert.Equal(t, 5, f.questions)
	})
}

func TestWaitServesAndSlowsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		f := &fakeServer{answer: func(int) (tx, error) {
			if time.Since(began) < 5*time.Second {
				return 0, nil
			}
			return 1, nil
		}}
		served := 0
		g := newGate(f, func(o *visibility.Options) {
			o.Serve = func(context.Context) error { served++; return nil }
		})
		require.NoError(t, g.Wait(t.Context(), 1))
		assert.Less(t, time.Since(began), 5100*time.Millisecond)
		assert.Less(t, f.questions, 200, "a question every 50 ms, as a rule")
		assert.GreaterOrEqual(t, served, f.questions)
	})
}

// What Serve says once ends the wait, whenever that is.
func TestServeEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for last := range 5 {
			gone, served := errors.New("gone"), 0
			f := &fakeServer{answer: always(0)}
			g := newGate(f, func(o *visibility.Options) {
				o.Serve = func(context.Context) error {
					if served++; served == last+1 {
						return gone
					}
					return nil
				}
			})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			require.ErrorIs(t, g.Wait(ctx, 1), gone)
			cancel()
			assert.LessOrEqual(t, f.connects, 1)
		}
	})
}

func TestContextEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		require.ErrorIs(t, newGate(&fakeServer{answer: always(0)}, nil).Wait(ctx, 1), context.DeadlineExceeded)
	})
}

func TestALongWaitIsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		logged := new(bytes.Buffer)
		problems := cdc.NewProblems(slog.New(slog.NewTextHandler(logged, nil)))
		f := &fakeServer{answer: func(int) (tx, error) {
			if time.Since(began) > 11*time.Second {
				require.Len(t, problems.List(), 1)
				assert.Equal(t, "see why", cdc.Fix(problems.List()[0].Err))
			}
			if time.Since(began) > 30*time.Second {
				return 7, nil
			}
			return 0, nil
		}}
		g := newGate(f, func(o *visibility.Options) {
			o.Problems = problems
		})
		require.NoError(t, g.Wait(t.Context(), 7))
		assert.Empty(t, problems.List())
		assert.Equal(t, 1, bytes.Count(logged.Bytes(), []byte("transaction 7 is committed but not visible")), logged)
	})
}

func TestALostConnectionIsMadeAgainOnce(t *testing.T) {
	lost := errors.New("lost")
	for name, c := range map[string]struct {
		answer             func(int) (tx, error)
		refuses            error // the second connect
		fails              bool
		connects, question int
	}{
		"the next answers": {answer: func(n int) (tx, error) {
			if n == 2 {
				return 0, lost
			}
			return tx(n), nil
		}, connects: 2, question: 3},
		"the next fails too": {answer: func(n int) (tx, error) {
			if n >= 2 {
				return 0, lost
			}
			return tx(n), nil
		}, fails: true, connects: 2, question: 3},
		"it cannot be made": {answer: func(n int) (tx, error) {
			if n >= 2 {
				return 0, lost
			}
			return tx(n), nil
		}, refuses: errors.New("refused"), fails: true, connects: 2, question: 2},
		"another server answers": {answer: func(n int) (tx, error) {
			if n == 2 {
				return 9, cdc.Fixable("name one", "two servers")
			}
			return tx(n), nil
		}, fails: true, connects: 1, question: 2},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fakeServer{answer: c.answer}
			g := newGate(f, nil)
			require.NoError(t, g.Wait(t.Context(), 1))
			f.refuses = c.refuses
			err := g.Wait(t.Context(), 2)
			assert.Equal(t, c.fails, err != nil, "%v", err)
			assert.Equal(t, c.connects, f.connects)
			assert.Equal(t, c.question, f.questions)
		})
	}
}

// What the server showed before the connection was lost is asked for again: it may have been another one.
func TestAnAnswerEndsWithItsConnection(t *testing.T) {
	lost := false
	f := &fakeServer{answer: func(int) (tx, error) {
		if lost {
			return 0, errors.New("lost")
		}
		return 5, nil
	}}
	g := newGate(f, nil)
	require.NoError(t, g.Wait(t.Context(), 5))
	lost = true
	require.Error(t, g.Wait(t.Context(), 6))
	require.Error(t, g.Wait(t.Context(), 5))
}
