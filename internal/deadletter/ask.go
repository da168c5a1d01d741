package deadletter

import "encoding/json"

// What a command asks for.
const (
	Retry = "retry"
	Drop  = "drop"
)

// maxAsked is how many bytes of letter IDs one [Ask] has at most: the record must fit into a topic with the brokers' usual limit.
const maxAsked = 512 << 10

// Ask is a command's request to the leading relay, in the index, and then the relay's answer under the same key.
type Ask struct {
	V  int    `json:"v"`
	Do string `json:"do,omitempty"`
	// Letters are the IDs of those that are to be resolved. An accepted drop has those that are left: the next leader goes on with it, since
	// what an accepted drop names is never published. Without letters a drop was only heard: some of them may be in flight.
	Letters []string `json:"letters,omitempty"`
	// Again says that a relay has accepted the drop of these letters, and that its command, which waits, has sent it again under the same key.
	Again bool `json:"again,omitempty"`
	// State is the answer: [Accepted], then [Ended]; "" in the request.
	State string `json:"state,omitempty"`
	// Waits is why an accepted one has to wait, or "".
	Waits string `json:"waits,omitempty"`
	// Done and Failed count the letters of an ended one, and Skipped those of a retry that were dropped, because errors.skip lists
	// their events; those that were resolved before, or as another ask says, are in none.
	Done    int `json:"resolved,omitempty"`
	Failed  int `json:"failed,omitempty"`
	Skipped int `json:"skipped,omitempty"`
	// Refused is why nothing was done for an ended one, or "".
	Refused string `json:"refused,omitempty"`
}

// NewAsks returns what asks for these letters.
func NewAsks(do string, letters []string) (asks []*Ask) {
	size := maxAsked
	for _, id := range letters {
		if size += len(id) + len(`"",`); size > maxAsked {
			asks, size = append(asks, &Ask{Do: do}), len(id)
		}
		last := asks[len(asks)-1]
		last.Letters = append(last.Letters, id)
	}
	return asks
}

// The states of an [Ask].
const (
	Accepted = "accepted"
	Ended    = "done"
)

// Encode returns the record's value.
func (a *Ask) Encode() []byte {
	a.V = version
	text, _ := json.Marshal(a) // cannot fail: strings and numbers
	return text
}
