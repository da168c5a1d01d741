package cdc_test

import (
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

func BenchmarkAppendMicros(b *testing.B) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC)
	dst := make([]byte, 0, 64)
	b.Run("ours", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			dst = cdc.AppendMicros(dst[:0], at.UnixMicro())
		}
	})
	b.Run("package_time", func(b *testing.B) {
		for b.Loop() {
			dst = time.UnixMicro(at.UnixMicro()).UTC().AppendFormat(dst[:0], time.RFC3339Nano)
		}
	})
}
