package record_test

import (
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/record"
)

func TestRead(t *testing.T) {
	plain := []record.Names{{ID: "key"}, {ID: "id", Type: "kind", Tenant: "tenant"}}
	for name, c := range map[string]struct {
		headers map[string]string
		value   string
		want    record.Attributes
	}{
		"binary": {
			headers: map[string]string{
				"ce_specversion": "1.0", "ce_id": "1", "ce_type": "a", "ce_aggregatetype": "b", "ce_tenant": "c", "ce_committime": "e", "id": "2",
			},
			want: record.Attributes{ID: "1", Type: "a", AggregateType: "b", Tenant: "c", CommitTime: "e"},
		},
		"structured": {
			headers: map[string]string{"content-type": "application/cloudevents+json; charset=UTF-8", "id": "2"},
			value:   `{"id":"1","type":"a","aggregatetype":"b","tenant":"c","committime":"e","data":{"id":3}}`,
			want:    record.Attributes{ID: "1", Type: "a", AggregateType: "b", Tenant: "c", CommitTime: "e"},
		},
		"not what it says": {headers: map[string]string{"content-type": "application/cloudevents+json"}, value: `{"id":`},
		"plain":            {headers: map[string]string{"id": "2", "kind": "a", "tenant": "c", "ce_id": "a member"}, want: record.Attributes{ID: "2", Type: "a", Tenant: "c"}},
		"another plain":    {headers: map[string]string{"key": "1", "id": "2", "kind": "a"}, want: record.Attributes{ID: "1"}},
		"foreign":          {headers: map[string]string{"ce_id": "1"}, value: `{"id":"2"}`, want: record.Attributes{ID: "1"}},
		"nothing":          {value: `{"id":"2"}`},
	} {
		if got := record.Read(c.headers, []byte(c.value), plain); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
