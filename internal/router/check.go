package router

import "github.com/cdc-relay/cdc-relay/internal/cdc"

// Check reports whether rows of a table with that schema can be routed: whether it is configured and has
// the columns that records and routes need. The error is the one that Route would return.
func (r *Router) Check(t *cdc.Table) error {
	_, err := r.compile(t)
	return err
}
