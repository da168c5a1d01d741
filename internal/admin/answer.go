package admin

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// page is the answer of GET /api/page. Its Leader takes the place of that of Status.
type page struct {
	Status

	At         time.Time    `json:"at"`
	Leader     *Leader      `json:"leader,omitempty"`
	Steps      []step       `json:"steps"`
	Standbys   []standby    `json:"standbys,omitzero"`
	Peers      bool         `json:"peers"` // some are configured
	History    shown        `json:"history"`
	Incidents  []incident   `json:"incidents"`
	Topics     topics       `json:"topics"`
	Partitions []partitions `json:"partitions"`
}

// topics are those of the last Seconds, but for the rate, which is the present one.
type topics struct {
	Seconds float64 `json:"seconds"`
	List    []topic `json:"list"`
}

// topic is one that was published to, or could not be. Published is since the start.
type topic struct {
	Name      string   `json:"name"`
	Published float64  `json:"published"`
	PerSecond *float64 `json:"per_second,omitempty"`
	// P99 of the seconds from the commit to Kafka's acknowledgement; absent if nothing was acknowledged.
	P99      *float64 `json:"p99,omitempty"`
	Rejected float64  `json:"rejected"`
	Retried  float64  `json:"retried"`
	// Last is when the last event was acknowledged, within a few seconds.
	Last time.Time `json:"last,omitzero"`
}

// partitions are those of a table.
type partitions struct {
	Table         string   `json:"table"`
	DaysAhead     *float64 `json:"days_ahead,omitempty"`
	OldestSeconds *float64 `json:"oldest_seconds,omitempty"`
	DefaultRows   *float64 `json:"default_rows,omitempty"`
	PastTTL       *float64 `json:"past_ttl,omitempty"`
}

// page is what the page shows at one moment, with the history of so many minutes.
func (a *api) page(w http.ResponseWriter, q *http.Request) {
	minutes, err := strconv.Atoi(q.FormValue("minutes"))
	if err != nil || minutes < 1 || minutes > sampleCount*int(sampleEvery/time.Second)/60 {
		minutes = 60
	}
	answer(w, http.StatusOK, a.past.page(time.Now(), minutes))
}

func (r *recorder) page(now time.Time, minutes int) *page {
	n := r.gather(now)
	st := r.status(now)
	leader, standbys, _ := r.fleet.others(&st)
	if leader == nil && st.State == "standby" && len(st.problems("database")) == 0 { // the database names it
		leader = &Leader{Name: st.Leader}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	was := r.earlier(now)
	return &page{
		Status: st, At: now.UTC(), Leader: leader, Steps: steps(r.o, &st, n, was, now), Standbys: standbys, Peers: len(r.o.Peers.URLs) > 0,
		History: r.history.of(minutes), Incidents: r.incidents.newest(), Topics: r.topics(n, was), Partitions: n.partitions(),
	}
}

func (r *recorder) topics(n, was *numbers) topics {
	first := n
	if len(r.older) > 0 {
		first = r.older[0]
	}
	all := topics{Seconds: n.at.Sub(first.at).Seconds(), List: []topic{}}
	for _, name := range slices.Sorted(maps.Keys(n.topics)) {
		c, before := n.topics[name], first.topics[name]
		if c.published == 0 && c.rejected == 0 && c.retried == 0 {
			continue
		}
		all.List = append(all.List, topic{
			Name: name, Published: c.published, PerSecond: known(perSecond(c.published, was.topics[name].published, n.at.Sub(was.at))),
			P99: known(c.acks.since(before.acks).quantile(.99)), Rejected: c.rejected - before.rejected, Retried: c.retried - before.retried, Last: r.last[name],
		})
	}
	return all
}

func (n *numbers) partitions() []partitions {
	list := []partitions{}
	ahead := n.tables["partitions_ahead"]
	for _, table := range slices.Sorted(maps.Keys(ahead)) {
		of := func(name string) *float64 {
			if v, known := n.tables[name][table]; known {
				return &v
			}
			return nil
		}
		list = append(list, partitions{table, of("partitions_ahead"), of("page_oldest_partition_age_seconds"), of("default_partition_rows"), of("partitions_unrelayed")})
	}
	return list
}
