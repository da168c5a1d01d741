package cdctest

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// mostPatience is by how much [Patience] stretches a limit at most.
const mostPatience = 6

// Patience returns d, a limit that is ample where a test has the machine for itself, stretched by the load that the machine has
// now: a load of two for each core doubles it. Where the load is not known (/proc/loadavg), it is d.
func Patience(d time.Duration) time.Duration {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return d
	}
	first, _, _ := strings.Cut(string(text), " ")
	load, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return d
	}
	return time.Duration(float64(d) * stretch(load/float64(runtime.NumCPU())))
}

func stretch(load float64) float64 { return min(max(load, 1), mostPatience) }
