package wal

import (
	"strings"
	"testing"
)

// A look that finds the publication changed names the last confirmed position, which the owner moves meanwhile. Run
// with -race.
func TestChangedPublicationNamesTheConfirmedPosition(t *testing.T) {
	ss := fedSession(&feed{}, &releaser{})
	s := ss.src
	s.confirmed.Store(0x80)
	s.positions.add(mark{seq: 1, resume: 0x100})
	s.Confirm(1)
	ss.monitor.good.Store(1)
	looked := make(chan error)
	go func() { looked <- ss.publicationChanged(t.Context(), nil) }()
	ss.advance()
	<-looked
	if err := ss.publicationChanged(t.Context(), nil); !strings.Contains(err.Error(), "0/100") {
		t.Errorf("it names another position than 0/100: %v", err)
	}
}
