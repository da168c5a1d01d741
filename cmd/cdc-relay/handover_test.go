package main

import (
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// At-least-once delivery continues from the newest position of exactly-once delivery.
func TestPositionInKafkaCounts(t *testing.T) {
	at := func(generation uint64, once bool) cdc.Checkpoint {
		return cdc.Checkpoint{Generation: generation, ExactlyOnce: once}
	}
	for name, tt := range map[string]struct {
		last   cdc.Checkpoint
		stored uint64 // of the copy; 0: there is none
		want   bool
	}{
		"no store":                           {at(3, true), 0, true},
		"copy":                               {at(3, true), 3, true},
		"copy of an earlier run":             {at(4, true), 3, true},
		"set by hand":                        {at(3, true), 4, false},
		"superseded, the slot has moved on":  {at(4, false), 0, false},
		"superseded by a start that stopped": {at(4, false), 3, true},
	} {
		if got := counts(tt.last, at(tt.stored, true), tt.stored > 0); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
