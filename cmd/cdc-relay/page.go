package main

import (
	"context"

	"github.com/cdc-relay/cdc-relay/internal/admin"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/deadletter"
	"github.com/cdc-relay/cdc-relay/internal/events"
	"github.com/cdc-relay/cdc-relay/internal/provision"
	"github.com/cdc-relay/cdc-relay/internal/stages"
)

// pageLetters is how many dead letters the page shows at once.
const pageLetters = 50

// letterPage is one page of dead letters, without their payloads.
type letterPage struct {
	Letters []deadletter.Listed `json:"letters"`
	Reasons map[string]int      `json:"reasons"`
	Total   int                 `json:"total"`
	More    bool                `json:"more"`
}

// pageDesk does what the commands do, with the relay's own configuration and rights.
func pageDesk(c *config.Config) admin.Desk {
	desk := admin.Desk{
		Event: func(ctx context.Context, id string) (any, error) { return events.Search(ctx, c, "", id) },
		Check: func(ctx context.Context) (any, error) { return provision.Check(ctx, c) },
	}
	if c.DeadLetter.On() {
		desk.Letters = func(ctx context.Context, after string) (any, error) { return lettersAfter(ctx, c, after) }
		desk.Resolve = func(ctx context.Context, do, letter string) error { return resolveLetter(ctx, c, do, letter) }
	}
	return desk
}

func lettersAfter(ctx context.Context, c *config.Config, after string) (*letterPage, error) {
	all, _, err := stages.LetterDesk(c).List(ctx, deadletter.Filter{})
	if err != nil {
		return nil, err
	}
	list, err := deadletter.After(all, after)
	if err != nil {
		return nil, err
	}
	shown := list[:min(pageLetters, len(list))]
	return &letterPage{append([]deadletter.Listed{}, shown...), deadletter.Counts(all), len(all), len(list) > len(shown)}, nil
}

func errResolved(id string) error {
	return cdc.Fixable("load the list again", "letter %s was resolved meanwhile, by another caller or by the relay", id)
}

// resolveLetter asks the relay that leads, which may be another one.
func resolveLetter(ctx context.Context, c *config.Config, do, id string) error {
	desk := stages.LetterDesk(c)
	list, read, err := desk.List(ctx, deadletter.Filter{IDs: []string{id}})
	if err != nil {
		return err
	}
	if len(list) != 1 || list[0].Letter != id { // an event's ID may be that of several letters
		return errResolved(id)
	}
	why := ""
	result, err := desk.Ask(ctx, do, list, read, func(reason string) { why = reason })
	switch {
	case err != nil && why != "":
		return cdc.Fixable("try again when that has passed", "the relay waits: %s", why)
	case err != nil:
		return err
	case result.Skipped > 0:
		return skippedError(list, result.Skipped)
	case result.Failed > 0:
		return cdc.Fixable("load the list again: it says why; remove the cause", "the letter could not be published, or is behind one that cannot")
	case result.Done == 0:
		return errResolved(id)
	}
	return nil
}
