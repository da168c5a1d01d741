package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
)

// judge holds what was read against what the database holds, and prints the table.
func (d *demo) judge() error {
	if err := d.load.Ledger.Check(d.truth); err != nil {
		return err
	}
	records := d.reader.Records()
	if d.tamper != nil {
		records = d.tamper(records)
	}
	report := cdctest.Check(d.truth, records, cdctest.CheckOptions{Faults: d.allowed()})
	d.show(report, d.latencies(records))
	if err := report.Err(); err != nil {
		return fmt.Errorf("a promise was broken: %w", err)
	}
	return nil
}

// allowed are the kills, each with the duplicates it may cause: the window and the transaction that was open.
func (d *demo) allowed() []cdctest.Fault {
	faults := slices.Clone(d.faults)
	for i := range faults {
		faults[i].Budget += d.load.Ledger.Largest()
	}
	return faults
}

// latencies are the times from COMMIT to consumer.
type latencies struct {
	// steady are in order, of what was committed a good while before the first kill.
	steady []time.Duration
	// longest is of everything.
	longest time.Duration
}

// disturbed is how long before a kill an event may be committed and still feel it.
const disturbed = time.Second

func (d *demo) latencies(records []cdctest.Record) latencies {
	var l latencies
	calm := d.faults[0].At.Add(-min(disturbed, d.duration/10))
	seen := make(map[uuid.UUID]bool, len(records))
	for i := range records { // a repeat stands behind its first publication
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

// quantile of latencies in order; 0 of none.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[int(q*float64(len(sorted)-1))]
}

func (d *demo) show(r *cdctest.Report, l latencies) {
	elapsed := d.ended.Sub(d.began)
	rows := [][3]string{
		{"committed", number(r.Committed), fmt.Sprintf("in %s transactions; %s events more were rolled back",
			number(d.load.Ledger.Transactions()), number(d.load.Ledger.RolledBack()))},
		{"delivered", number(r.Delivered), "each at least once"},
		{"lost", number(r.Count(cdctest.Lost)), ""},
		{"duplicates", number(r.Duplicates), fmt.Sprintf("a killed relay repeats what it had not saved, here at most %s: drop repeats by ce_id", number(window))},
		{"order violations", number(r.Count(cdctest.Order)), "of one key"},
		{"wrong", number(r.Count(cdctest.Phantom) + r.Count(cdctest.Content)), "rolled back and yet published, or not the row's content"},
		{"p50", millis(quantile(l.steady, 0.5)), "from COMMIT to the consumer, before the first kill"},
		{"p99", millis(quantile(l.steady, 0.99)), ""},
		{"longest", millis(l.longest), "through the kills"},
		{"events per second", number(int(float64(r.Delivered) / elapsed.Seconds())), "as many as the writers wrote"},
	}
	d.screen.say("")
	for _, row := range rows {
		d.screen.say("%s", strings.TrimRight(fmt.Sprintf("%-17s  %10s  %s", row[0], row[1], row[2]), " "))
	}
	d.screen.say("\nThese figures are the demo's: %s.", d.setting())
	d.screen.say("What the relay does on real servers is in docs/performance.md.")
	d.sayWhere(d.screen.w)
}

// setting is what the figures depend on.
func (d *demo) setting() string {
	setting := d.servers.backend.unsafe()
	if d.servers.fakes.kafka != nil {
		setting += ", a stand-in for Kafka"
	}
	return setting + ", writers and reader on one machine"
}

// number writes a count in groups of three.
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
