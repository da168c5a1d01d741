package record

// Attributes are what a record in Kafka says of its event, "" for what it does not say.
type Attributes struct {
	ID, Type, AggregateType, Tenant string
	// Sequence is that of [outbox.Row.Sequence], and CommitTime when the transaction committed, in RFC 3339.
	Sequence, CommitTime string
}

// Read returns the attributes of a record whose headers are text.
func Read(headers map[string]string) Attributes {
	return Attributes{
		ID: headers[headerID], Type: headers[headerType], AggregateType: headers[headerAggregateType], Tenant: headers[headerTenant],
		Sequence: headers[headerSequence], CommitTime: headers[headerCommitTime],
	}
}
