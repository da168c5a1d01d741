package main

import (
	"context"
	"runtime"
	"runtime/debug"
	"sync"
	"syscall"
	"time"
)

// Most allocations are short-lived buffers of requests. Collecting them at 1.5 instead of 2 times the live heap costs
// little CPU, and the memory limit keeps them from piling up in a burst or on a busy machine. The limit grows with the
// window, which is most of the live heap. While the process is calm the live heap is 2 MB: collecting it at 3 would happen
// twice a second at 1,000 events a second, and delay as many of them as p99 is about.
const (
	busyPercent = 50
	calmPercent = 200 // 8 MiB at least
	memoryBase  = 32 << 20
	memoryScale = 4
)

// tuneGC sets the garbage collector for the configured window, unless GOGC or GOMEMLIMIT is set.
func tuneGC(env func(string) (string, bool), window int64) {
	if _, set := env("GOGC"); !set {
		debug.SetGCPercent(busyPercent)
	}
	if _, set := env("GOMEMLIMIT"); !set {
		debug.SetMemoryLimit(memoryBase + memoryScale*window)
	}
}

// One event at a time passes from goroutine to goroutine and to the network and back. With several processors each of these steps wakes a
// thread, which is half of the CPU time of an event; with one it wakes none. So there is one as long as that has time to spare.
// docs/maintainers/performance.md has the measurement.
const (
	// loadInterval is how often the load is measured.
	loadInterval = 100 * time.Millisecond
	// busyShare is which part of one processor's time counts as busy. A measurement that is late by half of loadInterval does too: the
	// machine has no time for the process.
	busyShare = 0.6
	// calmIntervals is after how many intervals below half of that the process has one processor again.
	calmIntervals = 50
)

// tuneLoad has Go use one processor and collect garbage less often, and all processors while the process is busy, until stop is called. It
// leaves alone what GOMAXPROCS and GOGC set.
func tuneLoad(ctx context.Context, env func(string) (string, bool)) (stop func()) {
	_, processorsSet := env("GOMAXPROCS")
	_, percentSet := env("GOGC")
	if processorsSet && percentSet {
		return func() {}
	}
	tune := func(calm bool) {
		switch {
		case processorsSet:
		case calm:
			runtime.GOMAXPROCS(1)
		default:
			runtime.SetDefaultGOMAXPROCS()
		}
		switch {
		case percentSet:
		case calm:
			debug.SetGCPercent(calmPercent)
		default:
			debug.SetGCPercent(busyPercent)
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	var tuning sync.WaitGroup
	tuning.Go(func() {
		defer tune(false)
		tick := time.NewTicker(loadInterval)
		defer tick.Stop()
		tune(true)
		load := processors{one: true, at: time.Now(), used: cpuTime()}
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if was := load.one; load.next(time.Now(), cpuTime()) != was {
				tune(load.one)
			}
		}
	})
	return func() {
		cancel()
		tuning.Wait()
	}
}

// processors decides how many there are.
type processors struct {
	one  bool
	calm int // intervals without load, one after the other

	at   time.Time     // of the last measurement
	used time.Duration // until then
}

// next takes a measurement and reports whether one processor is enough.
func (p *processors) next(now time.Time, used time.Duration) bool {
	elapsed, share := now.Sub(p.at), float64(used-p.used)/float64(now.Sub(p.at))
	p.at, p.used = now, used
	switch {
	case share > busyShare || elapsed > loadInterval*3/2:
		p.one, p.calm = false, 0
	case share > busyShare/2:
		p.calm = 0
	default:
		if p.calm++; p.calm >= calmIntervals {
			p.one = true
		}
	}
	return p.one
}

// cpuTime is what the process has used, of users' and the system's time.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil { // it cannot fail with this argument
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
