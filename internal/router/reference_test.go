package router_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/router"
)

// TestRouteAgainstReference holds the router against a plain one that works on what rows mean, over
// several batches through one router and one Routed, as the relay does.
func TestRouteAgainstReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := drawOptions(t)
		r := router.New(o)
		tables, dst := []*cdc.Table{drawTable(t), drawTable(t)}, &cdc.Routed{}
		for range rapid.IntRange(1, 5).Draw(t, "batches") {
			events := rapid.SliceOfN(rapid.Custom(drawEvent), 0, 6).Draw(t, "events")
			b := drawBatch(t, rapid.SampledFrom(tables).Draw(t, "table"), events)
			dst.Reset(b)
			err := r.Route(b, dst)
			if got, want := outcome(dst, err), reference(&o, b, events); got != want {
				t.Fatalf("got\n%s\nwant\n%s\nerror: %v", got, want, err)
			}
		}
	})
}

func drawOptions(t *rapid.T) router.Options {
	o := options()
	o.Unroutable = rapid.SampledFrom([]cdc.Policy{cdc.PolicyStop, cdc.PolicyDrop, ""}).Draw(t, "policy")
	o.Malformed = o.Unroutable
	o.Routes = rapid.SliceOfN(rapid.SampledFrom([]router.Route{
		{Match: map[string]string{"aggregate_type": "Order"}, Topic: "orders.${tenant_id}"},
		{Match: map[string]string{"aggregate_type": "a|b.*", "tenant_id": ".+"}, Topic: "${aggregate_type}.${extra}"},
		{Match: map[string]string{"schema_version": "[0-9]"}, Topic: "v${schema_version}"},
		{Match: map[string]string{"event_type": `(?<head>[a-z]+)\..*`, "extra": "(?i)x(?<tail>.*)"}, Topic: "${head}-${tail}"},
		{Match: map[string]string{"partition_key": ""}, Topic: "empty"},
		{Match: map[string]string{"aggregate_type": "Order"}, Topic: "keyed", Key: column("tenant_id")},
		{Topic: "placed.${aggregate_id}", Key: column("extra"), Partition: column("schema_version")},
		{Topic: "rest"},
	}), 0, 4).Draw(t, "routes")
	o.Skip = rapid.SampledFrom([][]string{nil, {"0A0a0a0a-0a0a-0a0a-0a0a-0a0a0a0a0a0a"}}).Draw(t, "skip")
	return o
}

// drawBatch cuts the events into transactions, of which the first may have begun in an earlier batch.
func drawBatch(t *rapid.T, table *cdc.Table, events []event) *cdc.Batch {
	rows := make([]row, len(events))
	for i := range events {
		rows[i] = events[i].encode(table)
	}
	b := batch(table, rows...)
	b.Txs = nil
	commit := rapid.SampledFrom([]uint64{0, 1, 1 << 63}).Draw(t, "commit")
	for i := range events {
		if i > 0 && rapid.Bool().Draw(t, "same transaction") {
			continue
		}
		tx := cdc.Tx{Time: rapid.Int64Range(0, 1<<52).Draw(t, "time"), Row: i}
		if commit != 0 {
			tx.Commit = commit + uint64(i)
		}
		if i == 0 {
			tx.Ordinal = rapid.Uint32Range(0, 1<<20).Draw(t, "ordinal")
		}
		b.Txs = append(b.Txs, tx)
	}
	return b
}

// outcome writes what the router did; nothing of a batch counts when it stops.
func outcome(dst *cdc.Routed, err error) string {
	if err != nil {
		return "stop"
	}
	var b strings.Builder
	for i := range dst.Messages {
		fmt.Fprintf(&b, "row %d\n%s", dst.Messages[i].Row, golden(&dst.Messages[i]))
	}
	for _, d := range dst.Drops {
		fmt.Fprintf(&b, "row %d %s dropped: %v %v\n", d.Row, d.EventID, d.Reason == "skip", d.Err != nil)
	}
	return b.String() + "last " + dst.LastEventID
}

// reference is the plain router.
func reference(o *router.Options, b *cdc.Batch, events []event) string {
	var messages, drops strings.Builder
	last := ""
	for i := range events {
		e := &events[i]
		if len(o.Skip) > 0 && e.id == 0x0a {
			fmt.Fprintf(&drops, "row %d %s dropped: true false\n", i, e.uuid())
			continue
		}
		topic, route := e.topic(o.Routes)
		switch {
		case topic != "" && !e.malformed(route):
			fmt.Fprintf(&messages, "row %d\n%s", i, e.record(topic, route, b, i))
			last = e.uuid()
		case o.Unroutable != cdc.PolicyDrop:
			return "stop"
		case e.id == 0:
			fmt.Fprintf(&drops, "row %d  dropped: false true\n", i)
		default:
			fmt.Fprintf(&drops, "row %d %s dropped: false true\n", i, e.uuid())
		}
	}
	return messages.String() + drops.String() + "last " + last
}

// malformed looks at all of the columns that become part of a record by the route. The column extra is only a key.
func (e *event) malformed(r router.Route) bool {
	for column, text := range e.text {
		unread := column == "extra" && (r.Key == nil || r.Key.Column != column) || column == "partition_key" && r.Key != nil
		if !unread && !utf8.ValidString(text) {
			return true
		}
	}
	if r.Partition != nil && e.version != nil && *e.version < 0 {
		return true
	}
	_, hasType := e.text["aggregate_type"]
	_, hasID := e.text["aggregate_id"]
	return e.id == 0 || !hasType || !hasID || e.text["event_type"] == "" || e.hasNoAt || e.inf || (e.headers != nil && e.headers.bad)
}

// topic returns "" for a row that cannot be routed, and the route that it takes, if it takes one.
func (e *event) topic(routes []router.Route) (topic string, r router.Route) {
	if topic = e.text["topic"]; topic == "" {
		topic, r = e.routed(routes)
	}
	if topic == "." || topic == ".." || !regexp.MustCompile(`\A[a-zA-Z0-9._-]{1,249}\z`).MatchString(topic) {
		return "", r
	}
	return topic, r
}

func (e *event) routed(routes []router.Route) (topic string, r router.Route) {
	values := maps.Clone(e.text)
	if e.version != nil {
		values["schema_version"] = strconv.Itoa(int(*e.version))
	}
	for _, r := range routes { // what any route reads must be text
		for column := range values {
			_, matched := r.Match[column]
			if (matched || strings.Contains(r.Topic, "${"+column+"}")) && !utf8.ValidString(values[column]) {
				return "", r
			}
		}
	}
	i := slices.IndexFunc(routes, func(r router.Route) bool { return matches(r, values) })
	if i < 0 {
		return "", r
	}
	empty := false
	topic = regexp.MustCompile(`\$\{[a-z_]+\}`).ReplaceAllStringFunc(routes[i].Topic, func(v string) string {
		text := variable(routes[i], values, v[2:len(v)-1])
		empty = empty || text == ""
		return text
	})
	if empty {
		return "", r
	}
	return topic, routes[i]
}

func matches(r router.Route, values map[string]string) bool {
	for column, expression := range r.Match {
		text, ok := values[column]
		if !ok || !regexp.MustCompile(`\A(?:`+expression+`)\z`).MatchString(text) {
			return false
		}
	}
	return true
}

func variable(r router.Route, values map[string]string, name string) string {
	for column, expression := range r.Match {
		re := regexp.MustCompile(`\A(?:` + expression + `)\z`)
		if i := re.SubexpIndex(name); i > 0 {
			return re.FindStringSubmatch(values[column])[i]
		}
	}
	return values[name]
}

// record is the message of a good row, as golden prints it.
func (e *event) record(topic string, r router.Route, b *cdc.Batch, at int) string {
	key := e.text["partition_key"]
	if key == "" {
		key = e.text["aggregate_id"]
	}
	if r.Key != nil {
		key = e.text[r.Key.Column]
	}
	value := "null"
	if e.payload != nil {
		value = quoted([]byte(*e.payload))
	}
	var s strings.Builder
	fmt.Fprintf(&s, "topic %s\nkey %s\nvalue %s\n", topic, strings.ReplaceAll(quoted([]byte(key)), `""`, "null"), value)
	if r.Partition != nil && e.version != nil {
		fmt.Fprintf(&s, "partition %d\n", *e.version)
	}
	header := func(name, text string) {
		if text != "" {
			fmt.Fprintf(&s, "%s: %q\n", name, text)
		}
	}
	header("ce_id", e.uuid())
	header("ce_specversion", "1.0")
	header("ce_source", "/shop/outbox")
	header("ce_type", e.text["event_type"])
	header("ce_subject", e.text["aggregate_id"])
	header("ce_time", rfc3339(e.at))
	header("content-type", e.text["content_type"])
	header("ce_aggregatetype", e.text["aggregate_type"])
	header("ce_tenant", e.text["tenant_id"])
	header("ce_dataschema", e.text["schema_id"])
	if e.version != nil {
		header("ce_dataschemaversion", strconv.Itoa(int(*e.version)))
	}
	tx := b.Txs[0]
	for _, next := range b.Txs {
		if next.Row <= at {
			tx = next
		}
	}
	if tx.Commit != 0 {
		header("ce_sequence", fmt.Sprintf("%016x-%08x", tx.Commit, int(tx.Ordinal)+at-tx.Row))
	}
	if tx.Time != 0 {
		header("ce_committime", rfc3339(tx.Time))
	}
	if e.headers != nil {
		s.WriteString(strings.Join(e.headers.want, ""))
	}
	return s.String()
}

func rfc3339(unixMicros int64) string {
	return time.UnixMicro(unixMicros).UTC().Format("2006-01-02T15:04:05.999999Z")
}
