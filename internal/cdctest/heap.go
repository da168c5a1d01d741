package cdctest

import "runtime"

// Heap returns the number of bytes that are in use.
func Heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what finalizers and pools held
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
