package router

import "github.com/cdc-relay/cdc-relay/internal/cdc"

// maxPlans bounds the compiled schemas that are kept; a source makes a few in its life.
const maxPlans = 64

// Router turns rows into records. It is not safe for concurrent use.
type Router struct {
	tables map[string]*table
	routes []route
	// prefix is put before every topic.
	prefix string
	// reserved are the relay's own topics.
	reserved []string
	names    []string // roles and columns that routes read; a slot is an index into it
	policies cdc.Policies
	skip     map[string]struct{}
	added    []cdc.Header // at the end of every record

	plans map[*cdc.Table]*plan
	last  *plan         // of the last batch
	known cache[string] // topics by what the topic column holds

	encoder encoder // keeps its memory from batch to batch
}

// New returns a router.
func New(o Options) *Router {
	r := &Router{
		prefix: o.TopicPrefix, policies: o.Policies, reserved: o.Reserved,
		skip:   skipSet(o.Skip),
		added:  o.Headers,
		plans:  make(map[*cdc.Table]*plan),
		tables: newTables(o),
	}
	r.routes, r.names = newRoutes(o.Routes)
	return r
}

// Route appends to dst, which was reset for b, one message for each row of b in row order, or a drop with
// its reason: the rows listed under errors.skip, and with [cdc.PolicyDrop] those that cannot be routed. With
// [cdc.PolicyDeadLetter] those become dst.Refused. Rows that their table's Only leaves out are counted in dst.LeftOut. It never blocks. The messages point into b's arena and into dst. An error is a [cdc.StopError] that names the
// table, the event and the fix; dst must not be used then, and nothing of the batch may be published.
func (r *Router) Route(b *cdc.Batch, dst *cdc.Routed) error {
	rows := b.Rows()
	if rows == 0 {
		return nil
	}
	p, err := r.plan(b.Table)
	if err != nil {
		return err
	}
	p.reserve(dst, rows)
	dst.Payload, dst.Describer = p.record.Payload(), p
	e := &r.encoder
	e.r, e.p, e.dst = r, p, dst
	e.row.Start(p.Plan, b, dst.Scratch)
	for at := range rows {
		if err := e.encode(at); err != nil {
			return err
		}
	}
	dst.Scratch = e.row.Scratch
	p.learn(dst, rows)
	if n := len(dst.Messages); n > 0 {
		dst.LastEventID = string(dst.Messages[n-1].ID)
	}
	return nil
}

// Check reports whether rows of a table with that schema can be routed: whether it is configured and has
// the columns that records and routes need. The error is the one that Route would return.
func (r *Router) Check(t *cdc.Table) error {
	_, err := r.compile(t)
	return err
}

// Matched names what decided the topic of the last row that was routed: "column topic" or "routes[0]". It is for display.
func (r *Router) Matched() string { return r.encoder.topic().by }

// plan returns the compiled schema of t.
func (r *Router) plan(t *cdc.Table) (*plan, error) {
	if r.last != nil && r.last.Table == t {
		return r.last, nil
	}
	p := r.plans[t]
	if p == nil {
		var err error
		if p, err = r.compile(t); err != nil {
			return nil, err
		}
		if len(r.plans) >= maxPlans {
			clear(r.plans)
		}
		r.plans[t] = p
	}
	r.last = p
	return p, nil
}
