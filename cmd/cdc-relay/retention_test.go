package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/config"
)

// No pass is made while a letter of an earlier version has no payload, whether the configuration has dead letters or is a timer's, which has
// none. Nothing is in the way once it is resolved, or where there are no letters.
func TestPassWaitsForLettersWithoutTheirPayload(t *testing.T) {
	for _, topic := range []string{"", "letters"} {
		t.Run("topic "+strconv.Quote(topic), func(t *testing.T) {
			index := topic + ".index"
			if topic == "" {
				index = config.DefaultLetterTopic("shop") + ".index"
			}
			cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.AllowAutoTopicCreation(), kfake.DefaultNumPartitions(1))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(cluster.Close)
			file := filepath.Join(t.TempDir(), "cdc-relay.yaml")
			text := fmt.Sprintf(`{source: {mysql: {dsn: "relay@tcp(127.0.0.1:1)/shop", id: shop}}, kafka: {brokers: [%q]}, checkpoint: {file: position},
				routes: [{topic: t}], dead_letter: {topic: %q}}`, cluster.ListenAddrs()[0], topic)
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			c, err := config.Load(file, func(string) (string, bool) { return "", false })
			if err != nil {
				t.Fatal(err)
			}
			pass := func() error { return (&retentionRun{}).run(t.Context(), &cli{}, c, "") }
			refused := func() bool { return cdc.ReasonOf(pass()) == "dead_letter_without_payload" }
			if refused() {
				t.Error("without letters: refused")
			}
			client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.AllowAutoTopicCreation())
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			for _, value := range []string{`{"v":1,"stub":true}`, `{"v":1,"done":"published"}`} {
				entry := &kgo.Record{Topic: index, Key: []byte("letter/a@1/0"), Value: []byte(value)}
				if err := client.ProduceSync(t.Context(), entry).FirstErr(); err != nil {
					t.Fatal(err)
				}
				if unresolved := value == `{"v":1,"stub":true}`; refused() != unresolved {
					t.Errorf("%s: %v", value, pass())
				}
			}
		})
	}
}

// Without a section retention what --ttl detaches is dropped too, as by the setting's default.
func TestPassWithoutASectionDrops(t *testing.T) {
	for unknown, drops := range map[error]bool{nil: true, kgo.ErrClientClosed: false} {
		r := retentionRun{ahead: 30, ttl: "90d", unknown: unknown}
		if o, err := r.options(&config.Config{}); err != nil || o.Ahead != 30 || o.TTL != 90*24*time.Hour || o.Drop != drops {
			t.Errorf("letters: %v: %+v, %v", unknown, o, err)
		}
	}
}
