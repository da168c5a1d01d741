package inspect

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/cdc-relay/cdc-relay/internal/backfill"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/deadletter"
	"github.com/cdc-relay/cdc-relay/internal/display"
)

// DefaultState is the file with the state, unless another one is named.
const DefaultState = "cdc-relay-replay.json"

// State is what a replay needs to go on.
type State struct {
	Source string    `json:"database"`
	Table  string    `json:"table,omitempty"`
	Filter Filter    `json:"filter"`
	Topic  string    `json:"topic,omitempty"`
	Rate   int       `json:"rate,omitempty"`
	Began  time.Time `json:"began"`
	// Total is how many events were counted.
	Total int64 `json:"total"`
	// Tables are those that are read, in order, and by what. Place counts them. Ends are where they ended when they were counted.
	Tables []string       `json:"tables"`
	Ends   []string       `json:"ends"`
	Place  backfill.Place `json:"place"`
}

// save replaces the file, so that a crash leaves the old or the new one.
func (s *State) save(file string) error {
	doc, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("save the state of the replay: %w", err)
	}
	temporary := file + ".new"
	if err := os.WriteFile(temporary, append(doc, '\n'), 0o600); err != nil {
		return stateError(err)
	}
	if err := os.Rename(temporary, file); err != nil {
		return stateError(err)
	}
	return nil
}

func (s *State) remove(file string) error {
	if err := os.Remove(file); err != nil {
		return stateError(err)
	}
	return nil
}

const stateReason = "replay_state"

func stateError(err error) error {
	return cdc.ConfigError(stateReason, "name a file in a directory that may be written with --state", "the state of the replay cannot be saved (%w)", err)
}

// stateStore keeps the place of a replay in its state, as a relay keeps its position, and tells it. It implements [relay.Checkpointer].
// Its errors are final.
type stateStore struct {
	*Replay

	problems *cdc.Problems
	pace     *display.Pace
	why      string // it stands still
}

// Load implements [relay.Checkpointer].
func (s *stateStore) Load(context.Context) (cdc.Checkpoint, bool, error) {
	return cdc.Checkpoint{Progress: cdc.Progress{Position: s.State.Place.Position()}}, true, nil
}

// Claim implements [relay.Checkpointer]. The lock keeps others away.
func (s *stateStore) Claim(ctx context.Context, next, _ cdc.Checkpoint) error {
	return s.Save(ctx, next)
}

// Save implements [relay.Checkpointer].
func (s *stateStore) Save(_ context.Context, c cdc.Checkpoint) (err error) {
	if s.State.Place, err = backfill.PlaceAt(c.Progress.Position); err == nil {
		err = s.State.save(s.File)
	}
	if err != nil {
		return cdc.Stop(cdc.ClassRuntime, stateReason, err, "")
	}
	s.tell()
	return nil
}

// tell says now and then how far it is, and why it stands still.
func (s *stateStore) tell() {
	why := ""
	if list := s.problems.List(); len(list) > 0 {
		why = "waiting: " + cdc.Explain(&list[0]) + "\n"
	}
	if why != s.why {
		s.why = why
		_, _ = io.WriteString(s.Progress, why) // the reader may have gone
	}
	if far, due := s.pace.Tell(s.State.Place.Done); due {
		_, _ = io.WriteString(s.Progress, "published "+far+"\n")
	}
}

// lock keeps other replays from the state until this one has ended, however it ends. The file of the lock stays: removing it could let
// two in.
func (r *Replay) lock() (unlock func() error, err error) {
	lock := flock.New(r.File+".lock", flock.SetPermissions(0o600))
	held, err := lock.TryLock()
	if err != nil {
		return nil, stateError(err)
	}
	if !held {
		return nil, cdc.Usage("wait until it has ended, or stop it; for another replay next to it name another file with --state", "a replay runs with the state in %s", filepath.Clean(r.File))
	}
	return lock.Unlock, nil
}

// namedState is the flag that names the state, "" if it need not be given.
func (r *Replay) namedState() string {
	if r.File == DefaultState {
		return ""
	}
	return " --state " + deadletter.Quoted(r.File)
}

// refuseOther returns an error if a replay was interrupted.
func (r *Replay) refuseOther() error {
	r.State.Began = time.Now()
	doc, err := os.ReadFile(r.File)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return stateError(err)
	case !json.Valid(doc):
		return cdc.Usage("remove it, or name another file with --state", "%s is no state of a replay", filepath.Clean(r.File))
	}
	return cdc.Usage("continue with --resume, remove the file, or name another one with --state", "%s has the state of a replay that was interrupted", filepath.Clean(r.File))
}

// continueFrom reads the state. Only the rate may be another one.
func (r *Replay) continueFrom() error {
	if r.Given != "" {
		return cdc.Usage("leave it out, or remove the state and start anew", "--%s cannot be changed for a replay that continues", r.Given)
	}
	doc, err := os.ReadFile(r.File)
	if errors.Is(err, fs.ErrNotExist) {
		return cdc.Usage("start a replay without --resume, or name its file with --state", "no replay was interrupted: %s does not exist", filepath.Clean(r.File))
	}
	rate, source := r.State.Rate, r.State.Source
	if err == nil {
		err = json.Unmarshal(doc, &r.State)
	}
	if p := r.State.Place; err == nil && (p.Table < 0 || p.Table > len(r.State.Tables) || p.Rows < 0 || len(r.State.Ends) != len(r.State.Tables)) {
		err = fmt.Errorf("place %+v is none, or it is of another version", p)
	}
	if err != nil {
		return r.unreadable(err)
	}
	if r.State.Source != source {
		return cdc.Usage("use the configuration of that replay, or name its file with --state", "%s is of a replay of database %s, not %s", filepath.Clean(r.File), r.State.Source, source)
	}
	if rate > 0 {
		r.State.Rate = rate
	}
	return nil
}

func (r *Replay) unreadable(err error) error {
	return cdc.Usage("remove it, and start the replay anew", "the state in %s cannot be read (%w)", filepath.Clean(r.File), err)
}

// keepTables notes which tables are read, and returns an error if a replay that goes on would read others, or in another order.
func (r *Replay) keepTables() error {
	names := make([]string, len(r.selections))
	for i := range r.selections {
		names[i] = r.selections[i].Table.Name() + " by " + cmp.Or(r.selections[i].Table.Order(), "ID")
	}
	if r.Resume && !slices.Equal(r.State.Tables, names) {
		return cdc.Usage("use the configuration of that replay, or remove the state and start anew", "%s is of a replay of the tables %s, not %s",
			filepath.Clean(r.File), strings.Join(r.State.Tables, ", "), strings.Join(names, ", "))
	}
	r.State.Tables = names
	return nil
}
