package record

import (
	"encoding/json"
	"strings"

	"github.com/cdc-relay/cdc-relay/internal/outbox"
)

// Attributes are what a record in Kafka says of its event, "" for what it does not say.
type Attributes struct {
	ID            string `json:"id"`
	Type          string `json:"type"`
	AggregateType string `json:"aggregatetype"`
	Tenant        string `json:"tenant"`
	// CommitTime is when the transaction committed, in RFC 3339.
	CommitTime string `json:"committime"`
}

// Names are the headers in which the plain records of a table say what their events are, "" for what they do not say.
type Names struct{ ID, Type, AggregateType, Tenant string }

// Names returns the headers of the records of a table with that layout; false: they are CloudEvents.
func (s *Shape) Names(l outbox.Layout) (Names, bool) {
	return Names{
		s.header(l.Part(outbox.EventID)), s.header(l.Part(outbox.EventType)), s.header(l.Part(outbox.AggregateType)), s.header(l.Part(outbox.TenantID)),
	}, s.Format == FormatPlain
}

// header returns the name of the header that is a part and nothing else; "" if none is.
func (s *Shape) header(part *outbox.Part) string {
	for i := range s.Headers {
		if s.Headers[i].Part == *part {
			return s.Headers[i].Name
		}
	}
	return ""
}

// Read returns the attributes of a record in any of the formats. plain are the headers of the tables whose format is [FormatPlain]; the first
// table counts whose records have the ID that this record has.
func Read(headers map[string]string, value []byte, plain []Names) Attributes {
	var a Attributes
	if headers[headerSpecVersion] == "" { // a member of the column of headers may be called ce_id
		mediaType, _, _ := strings.Cut(headers[outbox.HeaderContentType], ";")
		if strings.EqualFold(mediaType, mediaTypeJSON) && json.Unmarshal(value, &a) == nil {
			return a
		}
		for _, n := range plain {
			if id := headers[n.ID]; id != "" {
				return Attributes{ID: id, Type: headers[n.Type], AggregateType: headers[n.AggregateType], Tenant: headers[n.Tenant]}
			}
		}
	}
	return Attributes{
		ID: headers[headerID], Type: headers[headerType], AggregateType: headers[headerAggregateType], Tenant: headers[headerTenant],
		CommitTime: headers[headerCommitTime],
	}
}
