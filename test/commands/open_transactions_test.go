package commands

import (
	"errors"
	"regexp"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// check names a transaction of another producer that holds back consumers, with the command that ends it.
func TestCheckNamesOpenTransactions(t *testing.T) {
	t.Parallel()
	s := newSite(t).setup()
	client, err := kgo.NewClient(kgo.SeedBrokers(kafka.Bootstrap()...), kgo.TransactionalID(s.name+"-silent"), kgo.TransactionTimeout(10*time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	record := &kgo.Record{Topic: s.name, Timestamp: time.Now().Add(-2 * time.Minute)}
	if err := client.ProduceSync(t.Context(), record).FirstErr(); err != nil {
		t.Fatal(err)
	}
	warns := regexp.MustCompile(`(?m)^warn  topic ` + s.name + `: a transaction of producer \d+ is open in topic "` + s.name + `" partition \d, and .* aborts it 10m0s after it began\. ` +
		"Fix: .* run `kafka-transactions.sh --bootstrap-server [^ ]+ forceTerminateTransaction --transactionalId " + s.name + "-silent`")
	if r := s.raw("", "check"); r.code != 0 || !warns.MatchString(r.stdout) {
		t.Errorf("check: %s", r)
	}
	if err := client.EndTransaction(t.Context(), kgo.TryAbort); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error { // the coordinator answers before it has written the markers
		if r := s.raw("", "check"); warns.MatchString(r.stdout) {
			return errors.New(r.stdout)
		}
		return nil
	})
}
