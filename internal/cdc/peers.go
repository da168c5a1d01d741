package cdc

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Peer is another relay of the same source.
type Peer struct {
	// Leads says that it is the leader and no standby.
	Leads bool
	// Name is as the relay calls itself; empty where only the address is known.
	Name string
	// Address is the one the database sees.
	Address string
}

// peerKept is how long a peer counts as there after it was seen: a standby is not connected all the time.
const peerKept = 15 * time.Second

// Peers are the other relays of a source. The zero value has none.
type Peers struct {
	mu   sync.Mutex
	seen map[[2]string]sighting // by name and address
}

type sighting struct {
	peer Peer
	at   time.Time
}

// Saw adds peers.
func (p *Peers) Saw(now time.Time, peers ...Peer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.seen == nil {
		p.seen = map[[2]string]sighting{}
	}
	for _, peer := range peers {
		p.seen[[2]string{peer.Name, peer.Address}] = sighting{peer, now}
	}
}

// List returns the peers that were seen of late, sorted.
func (p *Peers) List(now time.Time) []Peer {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.seen, func(_ [2]string, s sighting) bool { return now.Sub(s.at) > peerKept })
	var list []Peer
	for _, s := range p.seen {
		list = append(list, s.peer)
	}
	slices.SortFunc(list, func(a, b Peer) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Address, b.Address))
	})
	return list
}
