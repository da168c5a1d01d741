package outbox

import "strings"

// Role is the meaning of a column of an outbox table.
type Role uint8

// The roles. Each is named as the native table's column is.
const (
	// EventID is the event's identity, which consumers deduplicate on.
	EventID Role = iota
	// AggregateType is the kind of thing the event is about ("Order"); routes match on it most.
	AggregateType
	// AggregateID is the thing the event is about, and the record key unless PartitionKey is set.
	AggregateID
	// EventType is what happened ("order.placed").
	EventType
	// TenantID is the tenant that the event belongs to.
	TenantID
	// Topic is the topic; if it is NULL, routes decide.
	Topic
	// PartitionKey is the record key; if it is NULL, the aggregate ID is.
	PartitionKey
	// ContentType is the payload's media type.
	ContentType
	// SchemaID names the payload's schema.
	SchemaID
	// SchemaVersion is the version of that schema.
	SchemaVersion
	// Headers is a JSON object of more record headers.
	Headers
	// Payload is the record's value.
	Payload
	// OccurredAt is when the event happened, by the application's clock.
	OccurredAt
	// CreatedAt is the partition key.
	CreatedAt
	// Roles is the number of roles.
	Roles
)

// roleNames are the roles' names in order.
const roleNames = "event_id aggregate_type aggregate_id event_type tenant_id topic partition_key " +
	"content_type schema_id schema_version headers payload occurred_at created_at"

// String returns the role's name, which is the native table's column.
func (r Role) String() string { return strings.Fields(roleNames)[r] }

// ParseRole returns the role with that name.
func ParseRole(name string) (Role, bool) {
	for r, n := range strings.Fields(roleNames) {
		if n == name {
			return Role(r), true
		}
	}
	return 0, false
}
