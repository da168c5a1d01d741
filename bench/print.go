package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// print prints the rows of docs/maintainers/performance-history.md: what was measured, the result, and the target.
func (r *report) print(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	defer t.Flush()
	row := func(what, found, reach string, ok bool) {
		mark := "yes"
		if !ok {
			mark = "NO"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", what, found, reach, mark)
	}
	fmt.Fprintf(t, "what (%s)\tfound\treach\treached\n", r.Machine)
	if d := r.Drain; d != nil {
		row(fmt.Sprintf("drain of %d rows, against a bare reader", d.Rows), fmt.Sprintf("%.2f (%.0f/s to %.0f/s)", d.Ratio, d.RelayRate, d.BareRate), "1.6", d.Ratio >= 1.6)
		row("the same against one in binary format", fmt.Sprintf("%.2f (%.0f/s)", d.RatioBinary, median(d.BareBinary)), "", true)
		row("CPU per event while draining", fmt.Sprintf("%.2f us", d.CPU), "3.5 us", d.CPU <= 3.5)
		row("peak RSS while draining", fmt.Sprintf("%.0f MB", d.RSS), "64 MB", d.RSS <= 64)
	}
	if d := r.Large; d != nil {
		row("peak RSS, one transaction of 1,000,000 rows", fmt.Sprintf("%.0f MB", d.RSS), "64 MB", d.RSS <= 64)
	}
	if m := r.Topics; m != nil {
		few, many := m.Few, m.Many
		row(fmt.Sprintf("%d topics of %d partitions: drain against one of %d", manyTopics, manyPartitions, partitions),
			fmt.Sprintf("%.2f (%.0f/s to %.0f/s)", m.Ratio, many.RelayRate, few.RelayRate), "0.5", m.Ratio >= 0.5)
		row("the same: CPU per event", fmt.Sprintf("%.2f us (%.2f us)", many.CPU, few.CPU), "5 us", many.CPU <= 5)
		row("the same: peak RSS", fmt.Sprintf("%.0f MB (%.0f MB)", many.RSS, few.RSS), "96 MB", many.RSS <= 96)
	}
	if o := r.Once; o != nil {
		l, memory := o.Latency, o.Once.RSS/o.Least.RSS
		row("exactly-once: drain against at-least-once", fmt.Sprintf("%.2f (%.0f/s to %.0f/s)", o.Ratio, o.Once.RelayRate, o.Least.RelayRate), "0.8", o.Ratio >= 0.8)
		row("the same: CPU per event", fmt.Sprintf("%.2f us (%.2f us)", o.Once.CPU, o.Least.CPU), "", true)
		row("the same: peak RSS", fmt.Sprintf("%.2f (%.0f MB to %.0f MB)", memory, o.Once.RSS, o.Least.RSS), "1.3", memory <= 1.3)
		row("exactly-once: insert to read_committed consumer at 1000/s, p50", fmt.Sprintf("%.2f ms (Kafka alone %.2f)", l.P50, l.Kafka.P50), "8 ms", l.P50 <= 8)
		row("the same, p99", fmt.Sprintf("%.2f ms (Kafka alone %.2f; steal %.0f %%)", l.P99, l.Kafka.P99, l.Steal), "25 ms", l.P99 <= 25)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Retention)) {
		ret := r.Retention[name]
		var rounds []string
		for _, one := range ret.Rounds {
			rounds = append(rounds, fmt.Sprintf("%.0f to %.0f", one.With.Max, one.Without.Max))
		}
		row(name+": slowest INSERT at 2000/s while partitions are maintained, beyond one without", fmt.Sprintf("%.1f ms (%s)", ret.Extra, strings.Join(rounds, ", ")), "50 ms", ret.Extra <= 50)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Latency)) {
		l := r.Latency[name]
		p50, p99 := 2.5, 8.0
		if l.Rate > 1000 {
			p50, p99 = p99, 25
		}
		row("insert to consumer at "+name+", p50", fmt.Sprintf("%.2f ms (Kafka alone %.2f, INSERT alone %.2f)", l.P50, l.Kafka.P50, l.Insert.P50), fmt.Sprintf("%.1f ms", p50), l.P50 <= p50)
		row("insert to consumer at "+name+", p99", fmt.Sprintf("%.2f ms (Kafka alone %.2f, INSERT alone %.2f; steal %.0f %%)", l.P99, l.Kafka.P99, l.Insert.P99, l.Steal), fmt.Sprintf("%.0f ms", p99), l.P99 <= p99)
	}
	for _, flavor := range slices.Sorted(maps.Keys(r.Binlogs)) {
		r.binlog(row, flavor)
	}
	if s := r.Start; s != nil {
		row("start to ready", fmt.Sprintf("%.0f ms", s.Median), "500 ms", s.Median <= 500)
	}
	if d := r.Tenfold; d != nil && r.Drain != nil {
		rate, memory := d.RelayRate/r.Drain.RelayRate, d.RSS/r.Drain.RSS
		row("ten times the backlog: rate and memory against the drain", fmt.Sprintf("%.2f, %.2f (%.0f MB)", rate, memory, d.RSS), "0.85, 1.15", rate >= 0.85 && memory <= 1.15)
	}
}

// binlog prints the rows of one flavor.
func (r *report) binlog(row func(what, found, reach string, ok bool), flavor string) {
	d, large, l := r.Binlogs[flavor].Drain, r.Binlogs[flavor].Large, r.Binlogs[flavor].Latency
	row(fmt.Sprintf("%s: drain of %d rows, against a bare go-mysql reader", flavor, d.Rows), fmt.Sprintf("%.2f (%.0f/s to %.0f/s)", d.Ratio, d.RelayRate, d.BareRate), "0.38", d.Ratio >= 0.38)
	if r.Drain != nil {
		ratio := d.RelayRate / r.Drain.RelayRate
		row(flavor+": the same against PostgreSQL's drain", fmt.Sprintf("%.2f", ratio), "1.3", ratio >= 1.3)
	}
	row(flavor+": CPU per event while draining", fmt.Sprintf("%.2f us", d.CPU), "4.5 us", d.CPU <= 4.5)
	row(flavor+": peak RSS while draining", fmt.Sprintf("%.0f MB", d.RSS), "100 MB", d.RSS <= 100)
	row(flavor+": peak RSS, one transaction of 1,000,000 rows", fmt.Sprintf("%.0f MB", large.RSS), "100 MB", large.RSS <= 100)
	row(flavor+": insert to consumer at 1000/s, p50", fmt.Sprintf("%.2f ms (Kafka alone %.2f, INSERT alone %.2f)", l.P50, l.Kafka.P50, l.Insert.P50), "3 ms", l.P50 <= 3)
	row(flavor+": insert to consumer at 1000/s, p99", fmt.Sprintf("%.2f ms (Kafka alone %.2f, INSERT alone %.2f; steal %.0f %%)", l.P99, l.Kafka.P99, l.Insert.P99, l.Steal), "10 ms", l.P99 <= 10)
}
