package cdc

import "context"

// Queue takes a source's batches. It is limited in events and bytes.
type Queue interface {
	// Offer adds b, or returns false at once if there is no room.
	Offer(b *Batch) bool
	// Space receives a signal once there is room for a refused batch.
	Space() <-chan struct{}
}

// Loader returns the stored checkpoint, and false if there is none.
type Loader = func(context.Context) (Checkpoint, bool, error)

// Resumer returns the checkpoint to continue from, like a Loader, for a source whose slot or lock this relay has taken.
type Resumer = func(context.Context, Source) (Checkpoint, bool, error)

// Policy is what to do with an event that cannot be published.
type Policy string

// The policies.
const (
	// PolicyStop ends the run before the event and names it.
	PolicyStop Policy = "stop"
	// PolicyDrop counts the event, logs it without its payload and continues.
	PolicyDrop Policy = "drop"
	// PolicyDeadLetter puts the event into the topic of dead letters and continues with other keys.
	PolicyDeadLetter Policy = "dead_letter"
)

// Policies are the policies by what is wrong with an event: a row without a valid topic; a malformed row, or one for a partition that its
// topic does not have; a topic that does not exist; a record over the topic's limit; a record that a broker rejects.
type Policies struct{ Unroutable, Malformed, UnknownTopic, TooLarge, Rejected Policy }

// Instead returns the policies with another one in place of dead_letter.
func (p Policies) Instead(other Policy) Policies {
	for _, policy := range []*Policy{&p.Unroutable, &p.Malformed, &p.UnknownTopic, &p.TooLarge, &p.Rejected} {
		if *policy == PolicyDeadLetter {
			*policy = other
		}
	}
	return p
}

// Flavor is MySQL or MariaDB.
type Flavor string

// The flavors.
const (
	MySQL   Flavor = "mysql"
	MariaDB Flavor = "mariadb"
)

// Title returns the product's name.
func (f Flavor) Title() string {
	if f == MariaDB {
		return "MariaDB"
	}
	return "MySQL"
}
