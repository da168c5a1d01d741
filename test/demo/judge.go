package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
)

// judge compares the records with the database and prints the table.
func (d *demo) judge(records []cdctest.Record) error {
	if err := d.load.Ledger.Check(d.truth); err != nil {
		return err
	}
	report := cdctest.Check(d.truth, records, cdctest.CheckOptions{Faults: d.allowed()})
	d.show(report, d.latencies(records))
	if err := errors.Join(report.Err(), d.orders.check()); err != nil {
		return fmt.Errorf("a promise was broken: %w", err)
	}
	return nil
}

// allowed returns the kills, each with the number of repeats that it may cause: the window and the largest transaction.
func (d *demo) allowed() []cdctest.Fault {
	faults := slices.Clone(d.faults)
	for i := range faults {
		faults[i].Budget += d.load.Ledger.Largest()
	}
	return faults
}

// latencies are the times from COMMIT to consumer.
type latencies struct {
	// steady are those of events committed well before the first kill, sorted.
	steady []time.Duration
	// longest is the longest of all events.
	longest time.Duration
}

// disturbed is how long before a kill an event must be committed to be unaffected by it.
const disturbed = time.Second

func (d *demo) latencies(records []cdctest.Record) latencies {
	var l latencies
	calm := d.faults[0].At.Add(-min(disturbed, d.duration/10))
	seen := make(map[uuid.UUID]bool, len(records))
	for i := range records { // a repeat comes after its first publication
		r := &records[i]
		sent := d.shop.sentAt(r.EventID)
		if seen[r.EventID] || sent.IsZero() {
			continue
		}
		seen[r.EventID] = true
		took := r.Seen.Sub(sent)
		l.longest = max(l.longest, took)
		if sent.Before(calm) {
			l.steady = append(l.steady, took)
		}
	}
	slices.Sort(l.steady)
	return l
}

// quantile returns a quantile of sorted latencies, 0 if there are none.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[int(q*float64(len(sorted)-1))]
}

func (d *demo) show(r *cdctest.Report, l latencies) {
	elapsed := d.ended.Sub(d.began)
	rows := [][3]string{
		{"committed", number(r.Committed), fmt.Sprintf("in %s transactions; %s more events were rolled back",
			number(d.load.Ledger.Transactions()), number(d.load.Ledger.RolledBack()))},
		{"delivered", number(r.Delivered), "each at least once"},
		{"lost", number(r.Count(cdctest.Lost)), ""},
		{"duplicates", number(r.Duplicates), fmt.Sprintf("a killed relay repeats what it had not saved, here at most %s: drop repeats by ce_id", number(window))},
		{"order violations", number(r.Count(cdctest.Order)), "of one key"},
		{"wrong", number(r.Count(cdctest.Phantom) + r.Count(cdctest.Content)), "published although rolled back, or content differs from the row"},
		{"p50", millis(quantile(l.steady, 0.5)), "from COMMIT to the consumer, before the first kill"},
		{"p99", millis(quantile(l.steady, 0.99)), ""},
		{"longest", millis(l.longest), "across the kills"},
		{"events per second", number(int(float64(r.Delivered) / elapsed.Seconds())), "limited by the writers"},
	}
	if d.orders != nil {
		rows = append(rows,
			[3]string{"orders", number(d.orders.placed), "each request sent twice with one Idempotency-Key, the API killed once"},
			[3]string{"reserved", number(d.orders.reserved), "by the events of orders, the consumer killed once"})
	}
	d.screen.say("")
	for _, row := range rows {
		d.screen.say("%s", strings.TrimRight(fmt.Sprintf("%-17s  %10s  %s", row[0], row[1], row[2]), " "))
	}
	d.screen.say("\nThese are figures of the demo: %s.", d.setting())
	d.screen.say("docs/performance.md has figures from real servers.")
	d.sayWhere(d.screen.w)
}

// setting describes what the figures depend on.
func (d *demo) setting() string {
	setting := d.servers.backend.unsafe()
	if d.servers.fakes.kafka != nil {
		setting += ", a stand-in for Kafka"
	}
	return setting + ", writers and reader on one machine"
}

// number formats a count in groups of three digits.
func number(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

func millis(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
}
