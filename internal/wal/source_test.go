package wal

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Before the first look nothing is known of the slot: 0 bytes that may still be written would be an alert.
func TestNoSlotMetricsBeforeTheFirstLook(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := newMetrics(reg)
	for want := range 2 {
		if n, err := testutil.GatherAndCount(reg, "cdc_relay_slot_safe_bytes"); err != nil || n != want {
			t.Errorf("%d series after %d looks, %v", n, want, err)
		}
		m.observeSlot(cdc.SlotStatus{})
	}
}

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
