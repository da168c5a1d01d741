// Command bench measures the relay against bare readers, on one machine and in one run, with real
// PostgreSQL and Kafka: only the ratios are worth comparing. It prints a table and writes JSON.
//
//	go run ./bench                       everything (about ten minutes)
//	go run ./bench -only drain,latency   some of it
//	go run ./bench -rows 100000 -rounds 1
//
// The figures are explained in docs/performance.md.
package main
