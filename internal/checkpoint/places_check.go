package checkpoint

import (
	"context"
	"fmt"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/kafka"
)

// Check reports whether the store is reachable and its settings keep the checkpoint, and what is at risk with the position in Kafka.
func (p *Places) Check(ctx context.Context) []cdc.Finding {
	if !p.opts.ExactlyOnce {
		return p.store.Check(ctx)
	}
	var found []cdc.Finding
	if _, none := p.store.(None); !none {
		found = p.store.Check(ctx)
	}
	client := p.opts.Client()
	topics := []string{p.opts.Topic, transactionState}
	d, err := client.Describe(ctx, topics, "")
	if err != nil {
		return found // the check of Kafka says so
	}
	for i := range d.Topics {
		found = append(found, positionFindings(&d.Topics[i])...)
	}
	if _, _, err := p.newest(ctx); err != nil {
		found = append(found, cdc.FailedFinding("position", err))
	}
	return found
}

// transactionState is Kafka's topic of transactions.
const transactionState = "__transaction_state"

// positionFindings are about the topic of positions, or about Kafka's own topic of transactions.
func positionFindings(t *kafka.TopicInfo) []cdc.Finding {
	subject := "topic " + t.Name
	var found []cdc.Finding
	if t.Name != transactionState {
		if err := t.PositionProblem(); err != nil {
			return []cdc.Finding{cdc.FailedFinding(subject, err)}
		}
		found = append(found, cdc.Finding{Severity: cdc.SeverityOK, Subject: subject, Text: "can hold the position"})
	}
	replicas := "1 replica"
	if t.Replicas != 1 {
		replicas = fmt.Sprintf("%d replicas", t.Replicas)
	}
	if t.Err == nil && t.Settings == nil && (t.Replicas < 2 || t.MinISR < 2) {
		found = append(found, cdc.Finding{
			Severity: cdc.SeverityWarn, Subject: subject,
			Text: fmt.Sprintf("the loss of one broker can lose what it holds, and events would be published twice: it has %s and min.insync.replicas is %d", replicas, t.MinISR),
			Fix:  "give it 3 replicas and min.insync.replicas=2",
		})
	}
	return found
}
