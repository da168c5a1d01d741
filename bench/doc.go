// Command bench measures the relay against bare readers, in the same run on the same machine, with real databases and
// Kafka. Only the ratios are comparable. It prints a table and writes JSON.
//
//	go run ./bench                       everything (about ten minutes)
//	go run ./bench -only drain,usual     some of it
//	go run ./bench -rows 100000 -rounds 1
//
// The figures are explained in docs/performance.md.
package main
