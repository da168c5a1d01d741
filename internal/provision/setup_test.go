package provision

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-relay/cdc-relay/internal/app"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/kafka"
)

// The topic of dead letters takes records as large as the brokers allow, and setup says if that is less than it asks for. What they refuse for
// another reason is an error.
func TestSetupTakesTheLargestLimitOfLetters(t *testing.T) {
	for name, tt := range map[string]struct {
		code    int16
		refused func(limit string) bool
		want    int // 0: the topic is not made
		says    string
	}{
		"all":              {refused: func(string) bool { return false }, want: kafka.LargestRecord},
		"up to 8 MiB":      {kerr.PolicyViolation.Code, func(limit string) bool { n, _ := strconv.Atoi(limit); return n > 8<<20 }, 8 << 20, "max.message.bytes is 8388608, because"},
		"not as a setting": {kerr.InvalidConfig.Code, func(limit string) bool { return limit != "" }, 1048588, "max.message.bytes is the brokers' default"},
		"another setting":  {kerr.InvalidConfig.Code, func(string) bool { return true }, 0, ""},
		"no right":         {kerr.TopicAuthorizationFailed.Code, func(string) bool { return true }, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := kfake.NewCluster(kfake.NumBrokers(1))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(c.Close)
			c.ControlKey(int16(kmsg.CreateTopics), func(req kmsg.Request) (kmsg.Response, error, bool) {
				c.KeepControl()
				create, _ := req.(*kmsg.CreateTopicsRequest)
				limit := ""
				for _, setting := range create.Topics[0].Configs {
					if setting.Name == "max.message.bytes" {
						limit = *setting.Value
					}
				}
				if create.Topics[0].Topic != "letters" || !tt.refused(limit) {
					return nil, nil, false
				}
				res, _ := create.ResponseKind().(*kmsg.CreateTopicsResponse)
				topic := kmsg.NewCreateTopicsResponseTopic()
				topic.Topic, topic.ErrorCode = "letters", tt.code
				res.Topics = append(res.Topics, topic)
				return res, nil, true
			})
			conf := &config.Config{Kafka: config.Kafka{Brokers: c.ListenAddrs(), ClientID: "cdc-relay", RequestTimeout: 15 * time.Second}, DeadLetter: config.DeadLetter{Topic: "letters", Partitions: 2}}
			said := ""
			s := Setup{config: conf, SetupOptions: SetupOptions{Printf: func(format string, args ...any) { said += fmt.Sprintf(format, args...) }}}
			err = s.makeOwnTopics(t.Context())
			if (err == nil) != (tt.want > 0) || !strings.Contains(said, tt.says) || tt.says == "" && strings.Contains(said, "max.message.bytes") {
				t.Fatalf("%v, says %q", err, said)
			}
			if err != nil {
				return
			}
			client := app.KafkaClient(conf)
			defer client.Close()
			if limits, err := client.MaxMessageBytes(t.Context(), []string{"letters"}); err != nil || limits["letters"] != tt.want {
				t.Errorf("max.message.bytes: %v, %v", limits, err)
			}
		})
	}
}
