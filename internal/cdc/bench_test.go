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

// A time without a zone, as both databases hand it on.
func BenchmarkAppendShown(b *testing.B) {
	dst := make([]byte, 0, 64)
	for name, z := range map[string]*cdc.Zone{"utc": nil, "zone": zone(b, "Europe/Berlin")} {
		for text, raw := range map[string][]byte{"postgresql": []byte("\x00\x02\xe9\x3e\xf2\x1b\x4e\x00"), "mysql": []byte("2026-01-02 03:04:05.678901")} {
			form := cdc.FormTimestampText
			if text == "postgresql" {
				form = cdc.FormLocalMicros2000
			}
			b.Run(text+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					dst, _ = form.AppendShown(dst[:0], raw, z)
				}
			})
		}
	}
}
