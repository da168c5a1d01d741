package outbox

import (
	"fmt"
	"strings"
)

// Role is what a column of an outbox table means.
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
	// Topic names the topic outright; routes decide where it is NULL.
	Topic
	// PartitionKey is the record key where it is not the aggregate id.
	PartitionKey
	// ContentType is the payload's media type.
	ContentType
	// SchemaID names the payload's schema.
	SchemaID
	// SchemaVersion is the version of that schema.
	SchemaVersion
	// Headers is a JSON object of further record headers.
	Headers
	// Payload is the record's value.
	Payload
	// OccurredAt is when it happened, by the application's clock.
	OccurredAt
	// CreatedAt is the time that partitions the table.
	CreatedAt
	// Roles is the number of roles.
	Roles
)

// roleNames are the roles' names in their order.
const roleNames = "event_id aggregate_type aggregate_id event_type tenant_id topic partition_key " +
	"content_type schema_id schema_version headers payload occurred_at created_at"

// String returns the role's name: that of the native table's column.
func (r Role) String() string {
	if r >= Roles {
		return fmt.Sprintf("role(%d)", uint8(r))
	}
	return strings.Fields(roleNames)[r]
}

// ParseRole returns the role of that name.
func ParseRole(name string) (Role, bool) {
	for r, n := range strings.Fields(roleNames) {
		if n == name {
			return Role(r), true
		}
	}
	return 0, false
}
