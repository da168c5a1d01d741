package main

import (
	"bytes"
	"os"
	"strconv"
)

// cpuTimes are the CPU times of this machine in ticks: proc(5), /proc/stat.
type cpuTimes struct{ stolen, idle, all float64 }

// readCPU returns zero on systems without that file.
func readCPU() cpuTimes {
	var t cpuTimes
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return t
	}
	line, _, _ := bytes.Cut(stat, []byte("\n"))
	for i, field := range bytes.Fields(line)[1:] {
		v, err := strconv.ParseFloat(string(field), 64)
		if err != nil || i > 7 { // guest times are in user already
			break
		}
		t.all += v
		switch i {
		case 3, 4: // waiting for a disk is idle
			t.idle += v
		case 7:
			t.stolen = v
		}
	}
	return t
}

// stolenSince returns the share of CPU time, in percent, that the hypervisor gave to other machines. If it is high, latency
// tails are meaningless.
func (t cpuTimes) stolenSince(then cpuTimes) float64 {
	if t.all == then.all {
		return 0
	}
	return 100 * (t.stolen - then.stolen) / (t.all - then.all)
}

// busySince returns the share of CPU time, in percent, that was not idle.
func (t cpuTimes) busySince(then cpuTimes) float64 {
	if t.all == then.all {
		return 0
	}
	return 100 - 100*(t.idle-then.idle)/(t.all-then.all)
}
