package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/deadletter"
	"github.com/cdc-relay/cdc-relay/internal/replay"
)

const defaultState = "cdc-relay-replay.json"

// replayState is what a replay needs to go on.
type replayState struct {
	Source string    `json:"database"`
	Table  string    `json:"table,omitempty"`
	Filter filter    `json:"filter"`
	Topic  string    `json:"topic,omitempty"`
	Rate   int       `json:"rate,omitempty"`
	Began  time.Time `json:"began"`
	// Total is how many events were counted, Old how many of them were old.
	Total int64 `json:"total"`
	Old   int64 `json:"old"`
	// Tables are those that are read, in order. Place counts them.
	Tables []string     `json:"tables"`
	Place  replay.Place `json:"place"`
	// Uncounted says that an earlier version began the replay, which did not count the rows before Place.
	Uncounted bool `json:"uncounted,omitempty"`
	// Published and Dropped count the events before Place, and those behind it that were acknowledged.
	Published int64 `json:"published"`
	Dropped   int64 `json:"dropped"`
}

// old is when events stop to be old, exclusively: hardly any transaction that was open when they were counted has written an older one.
func (s *replayState) old() time.Time { return s.Began.Add(-time.Minute).Truncate(time.Microsecond) }

// save replaces the file, so that a crash leaves the old or the new one.
func (s *replayState) save(file string) error {
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

func (s *replayState) remove(file string) error {
	if err := os.Remove(file); err != nil {
		return stateError(err)
	}
	return nil
}

func stateError(err error) error {
	return cdc.ConfigError("replay_state", "name a file in a directory that may be written with --state", "the state of the replay cannot be saved (%w)", err)
}

// lock keeps other replays from the state until this one has ended, however it ends. The file of the lock stays: removing it could let
// two in.
func (r *replayRun) lock() error {
	lock := flock.New(r.file+".lock", flock.SetPermissions(0o600))
	held, err := lock.TryLock()
	if err != nil {
		return stateError(err)
	}
	if !held {
		return cdc.Usage("wait until it has ended, or stop it; for another replay next to it name another file with --state", "a replay runs with the state in %s", filepath.Clean(r.file))
	}
	r.unlock = lock.Unlock
	return nil
}

// namedState is the flag that names the state, "" if it need not be given.
func (r *replayRun) namedState() string {
	if r.file == defaultState {
		return ""
	}
	return " --state " + deadletter.Quoted(r.file)
}

// refuseOther returns an error if a replay was interrupted.
func (r *replayRun) refuseOther() error {
	r.state.Began = time.Now()
	_, err := os.Stat(r.file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return stateError(err)
	}
	if doc, err := os.ReadFile(r.file); err == nil && !json.Valid(doc) {
		return cdc.Usage("remove it, or name another file with --state", "%s is no state of a replay", filepath.Clean(r.file))
	}
	return cdc.Usage("go on with --resume, remove the file, or name another one with --state", "%s has the state of a replay that was interrupted", filepath.Clean(r.file))
}

// continueFrom reads the state. Only the rate may be another one.
func (r *replayRun) continueFrom(cmd *cobra.Command) error {
	var given string
	cmd.Flags().Visit(func(f *pflag.Flag) {
		switch f.Name {
		case "resume", "state", "rate", "yes", "owner-dsn", "config":
		default:
			given = f.Name
		}
	})
	if given != "" {
		return cdc.Usage("leave it out, or remove the state and start anew", "--%s cannot be changed for a replay that goes on", given)
	}
	doc, err := os.ReadFile(r.file)
	if errors.Is(err, fs.ErrNotExist) {
		return cdc.Usage("start a replay without --resume, or name its file with --state", "no replay was interrupted: %s does not exist", filepath.Clean(r.file))
	}
	rate, source := r.state.Rate, r.state.Source
	r.state.Place.Rows = math.MinInt64 // what it stays if the state has none
	if err == nil {
		err = json.Unmarshal(doc, &r.state)
	}
	if p := r.state.Place; err == nil && (p.Table < 0 || p.Table > len(r.state.Tables) || p.Rows < 0 && p.Rows != math.MinInt64) {
		err = fmt.Errorf("place %+v is none", p)
	}
	if err != nil {
		return r.unreadable(err)
	}
	if r.state.Source != source {
		return cdc.Usage("use the configuration of that replay, or name its file with --state", "%s is of a replay of database %s, not %s", filepath.Clean(r.file), r.state.Source, source)
	}
	if r.state.Place.Rows == math.MinInt64 {
		r.state.Place.Rows, r.state.Uncounted = 0, true
	}
	if rate > 0 {
		r.state.Rate = rate
	}
	return nil
}

func (r *replayRun) unreadable(err error) error {
	return cdc.Usage("remove it, and start the replay anew", "the state in %s cannot be read (%w)", filepath.Clean(r.file), err)
}

// keepTables notes which tables are read, and returns an error if a replay that goes on would read others.
func (r *replayRun) keepTables() error {
	names := make([]string, len(r.selections))
	for i := range r.selections {
		names[i] = r.selections[i].Table.Name()
	}
	if r.resume && !slices.Equal(r.state.Tables, names) {
		return cdc.Usage("use the configuration of that replay, or remove the state and start anew", "%s is of a replay of the tables %s, not %s",
			filepath.Clean(r.file), strings.Join(r.state.Tables, ", "), strings.Join(names, ", "))
	}
	r.state.Tables = names
	return nil
}
