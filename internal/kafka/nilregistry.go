package kafka

import gometrics "github.com/rcrowley/go-metrics"

// nilRegistry turns sarama's metrics off: its meters start a goroutine that is never stopped, and each request updates
// two dozen of them. go-metrics' own switch for this is a global variable.
type nilRegistry struct{ gometrics.Registry }

// GetOrRegister returns an instrument that does nothing, of the kind that the constructor makes.
func (nilRegistry) GetOrRegister(_ string, constructor any) any {
	switch constructor.(type) {
	case func() gometrics.Meter:
		return gometrics.NilMeter{}
	case func() gometrics.Counter:
		return gometrics.NilCounter{}
	case func() gometrics.Histogram:
		return gometrics.NilHistogram{}
	default:
		return constructor
	}
}
