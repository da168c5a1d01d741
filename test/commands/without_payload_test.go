package commands

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// An earlier version has left a dead letter without its payload, which only its row has. No relay starts and no pass removes rows until
// the earlier version has resolved it, also with the configuration of a timer, and the flag that such a pass had is refused. The letter is listed.
func TestLettersWithoutTheirPayloadComeFirst(t *testing.T) {
	t.Parallel()
	onAll(t, func(s *site) {
		timer := s.config + "retention: {keep: 1d}\n"
		s.config += "errors: {unroutable: dead_letter}\n"
		s.says(0, "created", "setup", "--partition", "none")
		client := s.kafkaClient()
		defer client.Close()
		const event = "018f4e3c-7a10-7cc0-8000-2c7d3b0f9a41"
		const id = event + "@1/0"
		write := func(value []byte) {
			s.t.Helper()
			entry := &kgo.Record{Topic: s.name + ".dead-letters.index", Key: []byte("letter/" + id), Value: value}
			if err := client.ProduceSync(s.t.Context(), entry).FirstErr(); err != nil {
				s.t.Fatal(err)
			}
		}
		write([]byte(`{"v":1,"partition":0,"place":"1/0","reason":"too_large","time":"2026-01-31T12:00:03Z","stub":true}`))
		for _, args := range [][]string{{"run"}, {"retention", "run"}} {
			s.says(2, "dead letter "+event+"@LSN, and 0 more, have no payload", args...)
		}
		s.says(0, event, "dlq", "list")
		s.config = timer
		s.says(2, "start the version of cdc-relay that ran before", "retention", "run")
		write(nil)
		if r := s.run("retention", "run"); strings.Contains(r.stderr, "no payload") {
			s.t.Errorf("the letter is resolved: %s", r)
		}
	})
}
