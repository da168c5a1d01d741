package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// print prints the rows of docs/maintainers/performance.md: what was measured, the result, and the target.
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
	r.Letters.rows(row)
	r.Maps.rows(row)
	r.marks(row)
	r.retention(row)
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
	for _, name := range slices.Sorted(maps.Keys(r.Replay)) {
		r.Replay[name].rows(row, name)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Peers)) {
		r.Peers[name].rows(row, name)
	}
	r.tails(row)
	if s := r.Start; s != nil {
		row("start to ready", fmt.Sprintf("%.0f ms", s.Median), "500 ms", s.Median <= 500)
	}
	if d := r.Tenfold; d != nil && r.Drain != nil {
		rate, memory := d.RelayRate/r.Drain.RelayRate, d.RSS/r.Drain.RSS
		row("ten times the backlog: rate and memory against the drain", fmt.Sprintf("%.2f, %.2f (%.0f MB)", rate, memory, d.RSS), "0.85, 1.15", rate >= 0.85 && memory <= 1.15)
	}
}

// retention prints the rows of each database.
func (r *report) retention(row func(what, found, reach string, ok bool)) {
	for _, name := range slices.Sorted(maps.Keys(r.Retention)) {
		ret := r.Retention[name]
		var rounds []string
		for _, one := range ret.Rounds {
			rounds = append(rounds, fmt.Sprintf("%.0f to %.0f", one.With.Max, one.Without.Max))
		}
		row(name+": slowest INSERT at 2000/s while partitions are maintained, beyond one without", fmt.Sprintf("%.1f ms (%s)", ret.Extra, strings.Join(rounds, ", ")), "50 ms", ret.Extra <= 50)
	}
}

// tails prints the rows of every kind.
func (r *report) tails(row func(what, found, reach string, ok bool)) {
	for _, k := range tailKinds() {
		l := r.Tails[k.name]
		if l == nil {
			continue
		}
		p50, p99 := 2.5, l.Kafka.P99+4
		if k.once {
			p50, p99 = 8, 25
		}
		row(fmt.Sprintf("fsync on, %s: insert to consumer at %d/s, p50", k.name, l.Rate), fmt.Sprintf("%.2f ms (Kafka alone %.2f, INSERT alone %.2f)", l.P50, l.Kafka.P50, l.Insert.P50), fmt.Sprintf("%.1f ms", p50), l.P50 <= p50)
		row("the same, p99", fmt.Sprintf("%.2f ms (Kafka alone %.2f, INSERT alone %.2f; steal %.0f %%)", l.P99, l.Kafka.P99, l.Insert.P99, l.Steal), fmt.Sprintf("%.1f ms", p99), l.P99 <= p99)
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

// rows prints those of dead letters.
func (l *lettersResult) rows(row func(what, found, reach string, ok bool)) {
	if l == nil {
		return
	}
	row("one bad event in 1,000: drain against one without", fmt.Sprintf("%.2f", l.Ratio), "0.9", l.Ratio >= 0.9)
	row("the same, exactly-once", fmt.Sprintf("%.2f", l.RatioOnce), "0.9", l.RatioOnce >= 0.9)
	row(fmt.Sprintf("start to ready with %d dead letters", storedLetters), fmt.Sprintf("%.0f ms", l.Start), "3000 ms", l.Start <= 3000)
	row("publishing them again", fmt.Sprintf("%.0f/s", l.Retry), "5000/s", l.Retry >= 5000)
}

// rows prints those of one database.
func (p *peersResult) rows(row func(what, found, reach string, ok bool), name string) {
	relay, debezium := p.Relay, p.Debezium
	if relay.Rate > 0 {
		row(name+": drain against Debezium Server", fmt.Sprintf("%.1f (%.0f/s to %.0f/s)", relay.Rate/debezium.Rate, relay.Rate, debezium.Rate), "6", relay.Rate >= 6*debezium.Rate)
		row(name+": CPU per event, Debezium Server's against it", fmt.Sprintf("%.1f (%.2f us to %.2f us)", debezium.CPU/relay.CPU, debezium.CPU, relay.CPU), "10", debezium.CPU >= 10*relay.CPU)
	}
	row(name+": peak RSS, Debezium Server's against it", fmt.Sprintf("%.1f (%.0f MB to %.0f MB)", debezium.RSS/relay.RSS, debezium.RSS, relay.RSS), "10", debezium.RSS >= 10*relay.RSS)
	row(name+": insert to consumer at a steady rate, p50, Debezium Server's against it", fmt.Sprintf("%.1f (%.2f ms to %.2f ms)", debezium.P50/relay.P50, debezium.P50, relay.P50), "5", debezium.P50 >= 5*relay.P50)
	row(name+": the same, p99", fmt.Sprintf("%.1f (%.2f ms to %.2f ms)", debezium.P99/relay.P99, debezium.P99, relay.P99), "", true)
}

// rows prints those of a replay and a repair.
func (p *replayResult) rows(row func(what, found, reach string, ok bool), name string) {
	row(fmt.Sprintf("%s: replay of %d rows next to a live stream at 1000/s", name, p.Rows), fmt.Sprintf("%.0f/s, %.2f us", p.Replay.Rate, p.Replay.CPUPerEvent), "50000/s", p.Replay.Rate >= 50_000)
	row(name+": peak RSS of replay and repair", fmt.Sprintf("%.0f MB, %.0f MB", p.Replay.PeakRSS, p.Repair.PeakRSS), "96 MB", max(p.Replay.PeakRSS, p.Repair.PeakRSS) <= 96)
	row(name+": p99 of the live stream next to the replay", fmt.Sprintf("%.2f ms (alone %.2f, next to a bare producer %.2f; steal %.0f %%)", p.Live.P99, p.Alone.P99, p.Bare.P99, p.Replay.Steal), "2 times", p.Live.P99 <= 2*p.Alone.P99)
	row(name+": repair of the same rows", fmt.Sprintf("%.0f/s, %.2f us", p.Repair.Rate, p.Repair.CPUPerEvent), "50000/s", p.Repair.Rate >= 50_000)
}
