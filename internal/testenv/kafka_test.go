package testenv_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

func TestKafkaServesAndKeepsItsData(t *testing.T) {
	k := testenv.Kafka(t, testenv.KafkaOptions{})
	ctx := t.Context()
	must(t, k.CreateTopic(ctx, "orders", 2, map[string]string{"max.message.bytes": "5000"}))
	cl, err := kgo.NewClient(kgo.SeedBrokers(k.Bootstrap()...), kgo.ConsumeTopics("orders"))
	must(t, err)
	defer cl.Close()
	must(t, cl.ProduceSync(ctx, &kgo.Record{Topic: "orders", Value: []byte("one")}).FirstErr())
	b := k.Brokers()[0]
	b.Kill()
	must(t, b.Start(ctx))
	must(t, cl.ProduceSync(ctx, &kgo.Record{Topic: "orders", Value: []byte("two")}).FirstErr())
	must(t, b.Stop(ctx))
	must(t, b.Start(ctx))
	var got []string
	for len(got) < 2 {
		fetches := cl.PollFetches(ctx)
		fetches.EachRecord(func(r *kgo.Record) { got = append(got, string(r.Value)) })
	}
}
