package deadletter

import "github.com/cdc-relay/cdc-relay/internal/cdc"

// Resolution is a letter to publish or to drop.
type Resolution struct {
	Work // whose Attempts count this one, unless it is dropped

	// Message is the event as it is routed now; nil drops it. Refused is why it cannot be routed, with the Reason; nil: it can.
	Message *cdc.Message
	Refused error
	Reason  string
	// Failed returns the index's entry for a letter that stays. It must be safe to call from another goroutine.
	Failed func(reason string, err error) []byte
}

// Outcome is what became of a [Resolution]. The zero value: it was published or dropped.
type Outcome struct {
	// Skipped says that nothing was tried: an earlier letter of the key stays, or this one is gone.
	Skipped bool
	// Reason and Err are why it could not be published.
	Reason string
	Err    error
}
