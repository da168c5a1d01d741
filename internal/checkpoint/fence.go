package checkpoint

import (
	"slices"
	"strings"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Fence is the transactional ID of a source that no other database has: on PostgreSQL the system identifier makes it
// so, on MySQL and MariaDB the configured ID.
func Fence(id cdc.Source) string {
	parts := []string{"cdc-relay", id.SystemID, id.Database}
	if id.Slot != "" {
		parts = append(parts, id.Slot)
	}
	return strings.Join(parts, ".")
}

// EarlierFences returns the transactional IDs, other than fence, under which the relays published that stored these checkpoints of id. On
// MySQL and MariaDB a relay may have had another source.mysql.id, or none.
func EarlierFences(fence string, id cdc.Source, stored ...cdc.Checkpoint) (earlier []string) {
	for i := range stored {
		c := &stored[i]
		if ours(c, id) && c.Fence != "" && c.Fence != fence && !slices.Contains(earlier, c.Fence) {
			earlier = append(earlier, c.Fence)
		}
	}
	return earlier
}

// ours reports whether c may be of id: on MySQL and MariaDB source.mysql.id may have been another one, or none.
func ours(c *cdc.Checkpoint, id cdc.Source) bool {
	return c.Source.Same(id) || id.Slot == "" && c.Source.Slot == "" && c.Source.Database == id.Database
}
