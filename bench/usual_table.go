package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// usualTable is how a relay did at a rate: medians of the rounds.
func usualTable(all []usualRound) string {
	var b strings.Builder
	if why := noisy(all); why != "" {
		fmt.Fprintf(&b, "These figures do not count: %s.\n\n", why)
	}
	fmt.Fprintf(&b, "%-9s %-13s %6s %-8s %22s %22s %14s %11s %11s %9s %9s\n", "database", "delivery", "rate", "relay", "p50 ms (INSERT, Kafka)", "p99 ms (INSERT, Kafka)",
		"CPU us/event", "server", "reached", "switches", "calls")
	var groups []usualGroup
	for i := range all {
		r := &all[i]
		if g := (usualGroup{r.Database, r.Delivery, r.Rate, r.Beside}); r.Relay != kafkaAlone && !slices.Contains(groups, g) {
			groups = append(groups, g)
		}
	}
	for _, g := range groups {
		alone := usualFigures(all, func(r *usualRound) bool { return r.Relay == kafkaAlone && r.Rate == g.rate })
		var found []usualRow
		for _, relay := range []string{bareRelay, debezium, otherRelay, thisRelay} {
			f := usualFigures(all, func(r *usualRound) bool {
				return r.Database == g.database && r.Delivery == g.delivery && r.Rate == g.rate && r.Beside == g.beside && r.Relay == relay
			})
			if f.rounds == 0 {
				continue
			}
			found = append(found, f)
			fmt.Fprintf(&b, "%-9s %-13s %6s %-8s %22s %22s %14.0f %11.0f %11.0f %9.1f %9.1f\n", g.database, g.delivery, g.load(), relay,
				fmt.Sprintf("%.2f (%.2f, %.2f)", f.p50.Median, f.insert50, alone.p50.Median), fmt.Sprintf("%.2f (%.2f, %.2f)", f.p99.Median, f.insert99, alone.p99.Median),
				f.cpu.Median, f.server, f.reached, f.switches, f.calls)
		}
		for i := range found[:max(0, len(found)-1)] {
			if was, is := &found[i], &found[len(found)-1]; is.relay == thisRelay && was.relay != bareRelay {
				fmt.Fprintf(&b, "%41s p50 %s, p99 %s, CPU %s\n", "this/"+was.relay+":", ratios(is.p50, was.p50), ratios(is.p99, was.p99), ratios(is.cpu, was.cpu))
			}
		}
	}
	return b.String()
}

// usualGroup is what relays are compared in. Without a rate they are idle.
type usualGroup struct {
	database, delivery string
	rate, beside       int
}

func (g usualGroup) load() string {
	switch {
	case g.beside > 0:
		return "beside"
	case g.rate == 0:
		return "idle"
	default:
		return strconv.Itoa(g.rate)
	}
}

// figure is a median and each round's value.
type figure struct {
	Median float64
	Each   []float64
}

// ratios is the median of the rounds' ratios, with the least and the greatest.
func ratios(is, was figure) string {
	var all []float64
	for i := range min(len(is.Each), len(was.Each)) {
		if was.Each[i] > 0 {
			all = append(all, is.Each[i]/was.Each[i])
		}
	}
	if len(all) == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f (%.2f to %.2f)", median(all), slices.Min(all), slices.Max(all))
}

type usualRow struct {
	relay                                                string
	rounds                                               int
	p50, p99, cpu                                        figure
	insert50, insert99, server, reached, switches, calls float64
}

func usualFigures(all []usualRound, is func(*usualRound) bool) (row usualRow) {
	of := func(value func(*usualRound) float64) figure {
		var f figure
		for i := range all {
			if r := &all[i]; is(r) {
				row.relay = r.Relay
				f.Each = append(f.Each, value(r))
			}
		}
		f.Median, row.rounds = median(f.Each), len(f.Each)
		return f
	}
	row.p50, row.p99 = of(func(r *usualRound) float64 { return r.Seen.P50 }), of(func(r *usualRound) float64 { return r.Seen.P99 })
	row.cpu = of(func(r *usualRound) float64 { return r.CPU })
	row.insert50, row.insert99 = of(func(r *usualRound) float64 { return r.Insert.P50 }).Median, of(func(r *usualRound) float64 { return r.Insert.P99 }).Median
	row.server, row.reached = of(func(r *usualRound) float64 { return r.ServerCPU }).Median, of(func(r *usualRound) float64 { return r.Reached }).Median
	row.switches, row.calls = of(func(r *usualRound) float64 { return r.Switches }).Median, of(func(r *usualRound) float64 { return r.Calls }).Median
	return row
}

// noisy says why the figures do not count; "" if they do.
func noisy(all []usualRound) string {
	for i := range all {
		r := &all[i]
		switch where := fmt.Sprintf("%s, %s, %d/s, round %d", r.Database, r.Relay, r.Rate, r.Round+1); {
		case r.Rate+r.Beside == 0 && r.Busy > quietBusy:
			return fmt.Sprintf("the machine was busy for %.0f %% while the relay was idle (%s)", r.Busy, where)
		case r.Steal > quietSteal:
			return fmt.Sprintf("the hypervisor gave %.0f %% of the CPU time to other machines (%s)", r.Steal, where)
		case r.Jumped > float64(quietJump.Milliseconds()) || r.Jumped < -float64(quietJump.Milliseconds()):
			return fmt.Sprintf("the clock was set by %.0f ms (%s)", r.Jumped, where)
		}
	}
	return ""
}
