package app

import (
	"fmt"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/checkpoint"
	"github.com/cdc-relay/cdc-relay/internal/display"
)

// positions is one command about positions.
type positions struct {
	*checkpoint.Places

	printf Printf
}

// reportReset prints what was dropped, and what was kept.
func (p *positions) reportReset(kept bool, show func(cdc.Position) string) {
	was := func(found bool, c *cdc.Checkpoint) string {
		if !found {
			return ""
		}
		return " (its position was " + show(c.Progress.Position) + ")"
	}
	if !kept && (p.ExactlyOnce || p.Counts()) {
		p.printf("position in Kafka topic %s: dropped%s\n", p.Topic, was(p.Committed, &p.Last))
	}
	if store := p.Place(); store != "" {
		p.printf("checkpoint in %s: dropped%s\n", store, was(p.Found, &p.Stored))
	}
	if kept {
		p.printf("the next run continues from the position in Kafka topic %s, %s\n", p.Topic, show(p.Last.Progress.Position))
	}
}

// repeatedPart says what a move to the position that is stored changes, which may be within a transaction.
func repeatedPart(p cdc.Part) string {
	if p.TxID == "" {
		return ""
	}
	return fmt.Sprintf(", before transaction %s; its first %s, published already, will be published again", p.TxID, display.Plural(int(p.Rows), "row"))
}

// savedLines are the lines about a checkpoint that are the same for every database.
func savedLines(commit string, c *cdc.Checkpoint) [][2]string {
	return [][2]string{
		{"last outbox commit", commit},
		{"last event", display.OrNone(c.LastEventID)},
		{"saved", fmt.Sprintf("%s, generation %d, save %d", c.SavedAt.Format(time.RFC3339), c.Generation, c.Sequence)},
	}
}
