// Package socket reads and writes TCP connections at less cost where little is sent at a time.
//
// Around each system call package net tells Go's scheduler that it may block, which wakes the scheduler's monitor thread if the process
// was idle; the thread then looks every 20 µs until the process is idle again. A relay that publishes one event at a time is idle several
// times within each event, so this was a fifth of its CPU time. A socket of package net never blocks, so there is nothing to tell.
// docs/maintainers/performance.md has the measurement.
package socket
