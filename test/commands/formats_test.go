package commands

import (
	"fmt"
	"strings"
	"testing"

	"github.com/IBM/sarama"
	"github.com/cloudevents/sdk-go/protocol/kafka_sarama/v2"
	"github.com/cloudevents/sdk-go/v2/binding"
	cloudevents "github.com/cloudevents/sdk-go/v2/event"
	"github.com/twmb/franz-go/pkg/kgo"
)

// The SDK of CloudEvents reads the same events from both of its formats, and `event` finds them in each.
func TestFormats(t *testing.T) {
	t.Parallel()
	ids := []string{"00000000-0000-7000-8000-000000000001", "00000000-0000-7000-8000-000000000002", "00000000-0000-7000-8000-000000000003"}
	read := map[string][]string{}
	for _, format := range []string{"cloudevents", "cloudevents-json", "plain"} {
		t.Run(format, func(t *testing.T) {
			s := newSite(t)
			s.config = "tables: [{name: public.outbox, format: " + format + ", headers: [{name: id, column: event_id}, {name: kind, column: event_type}]}]\n" + s.config
			s.setup()
			s.start().leading()
			for i, payload := range []string{`'{"total": 1}', 'application/json'`, `'a "b"', 'text/plain'`, `'\x00ff', 'application/octet-stream'`} {
				s.sql(fmt.Sprintf(`INSERT INTO outbox (event_id, aggregate_type, aggregate_id, event_type, tenant_id, headers, payload, content_type, occurred_at)
					VALUES ('%s', 'Order', '42', 'OrderPlaced', 'acme', '{"trace": "t"}', %s, '2026-01-02 03:04:05Z')`, ids[i], payload))
			}
			for i, r := range s.consume(s.name, len(ids)) {
				if format != "plain" {
					read[format] = append(read[format], strings.ReplaceAll(readEvent(t, r), s.name, "NAME"))
				}
				out := s.run("event", ids[i]).stdout
				if want := fmt.Sprintf("NAME, partition %d, offset %d", r.Partition, r.Offset); !strings.Contains(out, want) {
					t.Errorf("%s: it does not say %q: %s", format, want, out)
				}
			}
		})
	}
	for i, want := range read["cloudevents"] {
		if got := read["cloudevents-json"][i]; got != want {
			t.Errorf("structured mode:\n%s\nbinary mode:\n%s", got, want)
		}
	}
}

// readEvent reads a record with the SDK. What differs from run to run is left out.
func readEvent(t *testing.T, r *kgo.Record) string {
	t.Helper()
	message := &sarama.ConsumerMessage{Topic: r.Topic, Key: r.Key, Value: r.Value}
	for i := range r.Headers {
		message.Headers = append(message.Headers, &sarama.RecordHeader{Key: []byte(r.Headers[i].Key), Value: r.Headers[i].Value})
	}
	e, err := binding.ToEvent(t.Context(), kafka_sarama.NewMessageFromConsumerMessage(message))
	if err == nil {
		err = e.Validate()
	}
	if err != nil {
		t.Fatalf("the SDK does not take %s: %v", text(r), err)
	}
	for _, extension := range []string{"sequence", "committime"} {
		if e.Extensions()[extension] == nil {
			t.Errorf("no %s in %s", extension, text(r))
		}
	}
	for extension := range e.Extensions() {
		if extension == "sequence" || extension == "committime" || strings.HasPrefix(extension, "kafka") { // the last are the SDK's own
			e.SetExtension(extension, nil)
		}
	}
	return fmt.Sprintf("%s\ndata %q", e.Context.(*cloudevents.EventContextV1), e.Data())
}
