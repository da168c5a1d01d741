package backfill

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/tableread"
)

// Options say what a repair reads.
type Options struct {
	// All reads every row.
	All bool
	// Where reads the rows that meet this condition, which Lead has picked, and refuses a position that is not of the same moment.
	Where string
	// Since is when the gap begins; zero: where the checkpoint says.
	Since time.Time
	// Overlap is how long before that an event may have been created that was committed after it.
	Overlap time.Duration
	// Backdated says that a table has only the times at which events happened.
	Backdated bool
	// Display returns a position as the database prints it.
	Display func(cdc.Position) string
}

// Reading says what a [Database] reads.
type Reading struct {
	// Read are the tables, ReadDSN the connection string that reads them: that of their owner may also read what retention has taken
	// out.
	Read    []tableread.ReadOptions
	ReadDSN func(context.Context) (string, error)
	// Where is a condition that picks the rows; "": all are read.
	Where string
}

// Database takes the relay's place in a database.
type Database interface {
	// Lead keeps relays from leading, and finds out where to go on behind what it lets the tables show. It calls load once nobody else
	// can move the position. Its errors are those of a source's Acquire.
	Lead(ctx context.Context, load cdc.Resumer) (Ground, error)
	// Abandon takes back what Lead has made, where nothing is published after all.
	Abandon(ctx context.Context) error
	// Finish is called once the new position is saved.
	Finish(ctx context.Context) error
	// Close gives back what Lead took. It may be called again.
	Close(ctx context.Context)
}

// Ground is what Lead found.
type Ground struct {
	Source cdc.Source
	// Stored is the checkpoint, if Found. Lost is why no run can go on from it; nil: one can.
	Stored cdc.Checkpoint
	Found  bool
	Lost   error
	// Next is where the WAL or binlog goes on. Together says that the tables show exactly what is before it.
	Next     cdc.Progress
	Together bool
	// Tables are the outbox tables. They belong to the Database.
	Tables []tableread.Table
	// Ends are where the rows of Tables end, see [tableread.Filter]; nil: they end by themselves.
	Ends []string
	// Probes are the same tables. An error of one leaves Tables as they are.
	Probes []tableread.Table
	// Where is a condition that each row of the gap meets; "": none is known. Exact tells people what it says.
	Where, Exact string

	picked int64 // how many rows met the condition of [Options]
}

// gap is what is read.
type gap struct {
	filter tableread.Filter
	text   string
}

// gapUnknown is the reason when the user must say where the gap begins.
const gapUnknown = "gap_unknown"

// Intact is the reason when there is nothing to repair.
const Intact = "position_intact"

// plan decides what to read.
func (o *Options) plan(ctx context.Context, g *Ground) (gap, error) {
	behind, err := lastPublished(ctx, g)
	if err != nil {
		return gap{}, err
	}
	if saved := g.Stored.SavedAt; !saved.IsZero() && behind.After(saved.Add(o.Overlap)) {
		behind = time.Time{} // it was published before: the row's time is ahead of the clock, and tells nothing
	}
	rests := fmt.Sprintf("; it is complete if each was committed within %s (--overlap) of its created_at, which may be the time in its ID", o.Overlap)
	if o.Backdated {
		rests = fmt.Sprintf("; without created_at in tables[].columns it is complete only if no event happened more than %s (--overlap) before its commit: `cdc-relay backfill` publishes every row", o.Overlap)
	}
	switch {
	case o.Where != "":
		return o.once(ctx, g)
	case o.All:
		return gap{text: "all rows"}, nil
	case !o.Since.IsZero():
		from := o.Since.Add(-o.Overlap)
		return gap{tableread.Filter{From: from}, "rows created since " + clock(from) + rests}, nil
	case g.Stored.Progress.Unfinished() != nil: // the last event that it published says nothing of the rows before it
		return gap{}, g.Stored.Progress.Unfinished()
	case g.Lost == nil:
		said := "a run can continue from the position of the slot; no checkpoint is stored, so events before that may be missing if the slot was made again"
		if p := g.Stored.Progress.Position; p != "" {
			said = "nothing is lost: a run can continue from " + o.Display(p)
		}
		return gap{}, cdc.Stop(cdc.ClassRuntime, Intact, errors.New(said),
			"start `cdc-relay run`, or publish older rows with `cdc-relay repair --since TIME` or `cdc-relay backfill`")
	case g.Where != "":
		return gap{tableread.Filter{Where: g.Where}, g.Exact}, nil
	case g.Exact != "":
		return gap{text: g.Exact}, nil
	case !behind.IsZero():
		from := behind.Add(-o.Overlap)
		return gap{tableread.Filter{From: from}, "rows created since " + clock(from) + ", which is " + o.Overlap.String() + " before the last published event" + rests}, nil
	}
	return gap{}, cdc.PositionError(gapUnknown, "give a time before the first event that consumers miss with `cdc-relay repair --since TIME`, or publish every row with `cdc-relay backfill`",
		"no checkpoint tells where the gap begins%s", savedAt(g))
}

// once decides whether the rows that meet a condition are published.
func (o *Options) once(ctx context.Context, g *Ground) (gap, error) {
	switch at := g.Stored.Progress; {
	case g.Lost == nil && at.Position != "" && at.Backfill == o.Where:
		return gap{}, cdc.Stop(cdc.ClassRuntime, Intact, fmt.Errorf("the rows were published before; a run continues from %s", o.Display(at.Position)), "start `cdc-relay run`")
	case !g.Together:
		return gap{}, cdc.PositionError("position_taken",
			"if no relay has published from it, drop it with `cdc-relay teardown --yes` and run the same command again; otherwise leave out --backfill, and publish what is missing by the IDs of the events",
			"there is a position already, and rows that were committed since would be published twice, by the backfill and by `cdc-relay run`; nothing was published")
	}
	for _, t := range g.Tables {
		n, err := t.Count(ctx, tableread.Filter{})
		if err != nil {
			return gap{}, err
		}
		g.picked += n
	}
	return gap{text: fmt.Sprintf("%d rows where %s", g.picked, o.Where)}, nil
}

// Foreign adds to the error for a checkpoint of another source, which tells nothing about this one, how old the checkpoint is.
func Foreign(stop *cdc.StopError, savedAt time.Time) error {
	return cdc.Stop(stop.Class, stop.Reason, fmt.Errorf("%w; it was saved at %s", stop.Cause, clock(savedAt)), stop.Fix)
}

func savedAt(g *Ground) string {
	if !g.Found || g.Stored.SavedAt.IsZero() {
		return ""
	}
	return fmt.Sprintf(" (the last one was saved at %s, and its last event is in no table, or in several by its ID, or its created_at is no earlier time)", clock(g.Stored.SavedAt))
}

func clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// lastPublished returns when the checkpoint's last event was created, if its row is still there and no other table has its ID.
func lastPublished(ctx context.Context, g *Ground) (time.Time, error) {
	if !g.Found || g.Stored.LastEventID == "" {
		return time.Time{}, nil
	}
	var created []int64
	for _, t := range g.Probes {
		err := tableread.Fetch(ctx, t, g.Stored.LastEventID, func(b *cdc.Batch) error {
			for _, tx := range b.Txs {
				created = append(created, tx.Time)
			}
			return nil
		})
		if err != nil && cdc.ReasonOf(err) != tableread.ReasonNotAnID { // which is of another table
			return time.Time{}, err
		}
	}
	if len(created) != 1 || created[0] == 0 {
		return time.Time{}, nil
	}
	return time.UnixMicro(created[0]), nil
}
