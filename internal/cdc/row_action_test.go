package cdc_test

import (
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

func TestNewRowKey(t *testing.T) {
	for column, want := range map[string]string{"7": "orders-7", "": ""} { // a row without an ID makes no record, and its letter has none
		if k := cdc.NewRowKey("orders-", column, 7); k.ID != want || k.Value != 7 {
			t.Errorf("%q: %+v", column, k)
		}
	}
}
