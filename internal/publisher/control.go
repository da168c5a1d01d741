package publisher

import (
	"context"
	"errors"
	"time"

	"github.com/IBM/sarama"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// job is a question to the cluster. One is asked at a time, beside the loop, which gets the answer as an
// event.
type job interface {
	run(ctx context.Context, c *cluster) event
}

// control asks what the loop wants to know.
func control(ctx context.Context, c *cluster, jobs <-chan job, mail *mailbox) {
	defer c.close()
	for {
		select {
		case <-ctx.Done():
			return
		case j := <-jobs:
			mail.post(j.run(ctx, c))
		}
	}
}

// learnJob asks for leaders and limits, and creates what is missing if it may.
type learnJob struct {
	topics []string
	limits []string // of these topics the limit is not known
	create *TopicSpec
}

type learned struct {
	job     learnJob
	md      *sarama.MetadataResponse
	limits  map[string]int   // nil: not read
	created map[string]error // the outcome for each topic that was missing
	err     error
}

func (j learnJob) run(ctx context.Context, c *cluster) event {
	a := learned{job: j}
	if a.md, a.err = c.metadata(ctx, j.topics); a.err != nil {
		return a
	}
	if j.create != nil {
		a.created = j.createMissing(ctx, c, a.md)
	}
	if len(j.limits) > 0 {
		// Without it the configured limit stands, and it is asked for again with the next metadata.
		a.limits, _ = c.limits(ctx, j.limits)
	}
	return a
}

// createMissing makes the missing topics. Their leaders are known a little later.
func (j learnJob) createMissing(ctx context.Context, c *cluster, md *sarama.MetadataResponse) map[string]error {
	var absent []string
	for _, tp := range md.Topics {
		if tp.Err == sarama.ErrUnknownTopicOrPartition {
			absent = append(absent, tp.Name)
		}
	}
	return c.create(ctx, absent, j.create)
}

// identityJob asks for a producer id in place of the current one.
type identityJob struct {
	transactional string
	current       producer
	routine       bool // the current one still holds
	unsure        bool // an earlier question may have been granted
}

type identified struct {
	job identityJob
	id  producer
	err error
}

func (j identityJob) run(ctx context.Context, c *cluster) event {
	id, err := c.renew(ctx, j.transactional, j.current, j.unsure)
	return identified{j, id, err}
}

// wantMetadata has a topic's metadata fetched with the next question.
func (l *loop) wantMetadata(tp *topic) {
	if !tp.wanted && tp.err == nil {
		tp.wanted = true
		l.wanted = append(l.wanted, tp)
	}
}

// ask puts the next question, if there is one and it is time.
func (l *loop) ask() {
	if l.asking {
		return
	}
	if l.now.Before(l.askAt) {
		if l.renewing || len(l.wanted) > 0 {
			l.wakeAt(l.askAt)
		}
		return
	}
	switch {
	case l.renewing && l.flights == 0 && !l.fenced:
		l.submit(identityJob{l.transactional, l.producer, false, l.unsure})
	case len(l.wanted) > 0:
		l.submit(l.learnJob())
	case l.renewalDue() && !l.renewing:
		l.submit(identityJob{l.transactional, l.producer, true, l.unsure})
	case l.transactional != "" && !l.renewing: // while renewing it may be overdue, and the loop would spin
		l.wakeAt(l.renewAt)
	}
}

func (l *loop) submit(j job) {
	l.asking = true
	l.jobs <- j // has room for the one that may be out
}

func (l *loop) learnJob() learnJob {
	j := learnJob{create: l.opts.Create}
	for _, tp := range l.wanted {
		tp.wanted, tp.checked = false, l.now
		j.topics = append(j.topics, tp.name)
		if tp.stale || len(tp.partitions) == 0 {
			j.limits = append(j.limits, tp.name)
		}
	}
	l.wanted = l.wanted[:0]
	return j
}

// askInterval lets what is asked for at about the same time share a question.
const askInterval = 50 * time.Millisecond

// answered schedules the next question: soon, or after a pause that grows when nobody answers.
func (l *loop) answered(err error) {
	l.asking = false
	if err == nil {
		l.askAt = l.now.Add(min(l.opts.RetryInitial, askInterval))
		l.reachable()
		return
	}
	l.askLater(l.opts.RetryMax)
	l.trouble("", err)
}

// askLater lets a pause pass that grows up to limit.
func (l *loop) askLater(limit time.Duration) {
	if l.askBackoff == nil {
		l.askBackoff = l.newBackoff()
	}
	l.askBackoff.MaxInterval = limit
	l.askAt = l.after(l.askBackoff)
}

func (a learned) apply(l *loop) {
	l.answered(a.err)
	if a.err != nil {
		for _, name := range a.job.topics {
			if tp := l.topics[name]; tp != nil {
				tp.trouble = trouble{}
				l.wantMetadata(tp)
			}
		}
		return
	}
	l.learnBrokers(a.md)
	for _, md := range a.md.Topics {
		tp := l.topics[md.Name]
		if tp == nil {
			continue
		}
		if err := a.created[md.Name]; err != nil {
			l.uncreated(tp, err)
			continue
		}
		if _, made := a.created[md.Name]; made {
			l.log.Info("topic created", "topic", tp.name, "partitions", l.opts.Create.Partitions)
			l.wantMetadata(tp)
			continue
		}
		l.learn(tp, md, a.limits[md.Name])
	}
	if len(l.wanted) > 0 { // a leader or a topic is missing: not for long, or for a while
		l.askLater(min(l.opts.RetryMax, leaderPoll))
	} else {
		l.askBackoff = nil
	}
}

// uncreated tries again to make a topic, and for ever where no broker has refused to.
func (l *loop) uncreated(tp *topic, err error) {
	var code sarama.KError
	answered := errors.As(err, &code)
	if v := judge(code); !answered || v == again || v == moved {
		tp.trouble = trouble{}
		l.wantMetadata(tp)
		return
	}
	l.patiently(tp, code, func() { l.haltTopic(tp, createError(tp.name, err)) })
}

func (l *loop) learnBrokers(md *sarama.MetadataResponse) {
	for _, b := range md.Brokers {
		k := l.link(b.ID())
		if k == nil {
			k = &link{id: b.ID(), addr: b.Addr()}
			l.links = append(l.links, k)
		}
		if k.addr != b.Addr() {
			k.addr = b.Addr()
			if k.s != nil {
				l.lost(k.s, errMoved)
			}
		}
	}
}

// renewInterval keeps the coordinator from forgetting the transactional id; see identity.go.
const renewInterval = 24 * time.Hour

// renewalDue reports whether the identity is to be renewed although nothing is wrong with it.
func (l *loop) renewalDue() bool {
	return l.transactional != "" && !l.now.Before(l.renewAt)
}

// renew asks for a new identity, under which the sequence numbers begin at 0, once nothing is in flight. What
// was in flight goes first again, so that the order holds; it may be in the log twice.
func (l *loop) renew(cause error) {
	if !l.renewing {
		l.renewing = true
		l.log.Warn("a new producer id is needed: events in flight may be published twice", "error", cause)
	}
}

func (a identified) apply(l *loop) {
	l.answered(a.err)
	var stop *cdc.StopError
	fenced := errors.As(a.err, &stop) && stop.Class == cdc.ClassFenced
	l.unsure = a.err != nil && (l.unsure || !fenced)
	switch {
	case a.err != nil && a.job.routine: // the old one holds, unless brokers say otherwise
		l.renewAt = l.now.Add(l.opts.RenewInterval / 24)
		l.log.Warn("the fence in Kafka was not renewed, trying again later", "error", a.err)
	case fenced:
		l.fenced = true
		l.fail(0, a.err)
	case a.err == nil:
		l.adopt(a.id)
		if !a.job.routine {
			l.renewing = false
			l.restamp()
		}
	}
}

// adopt cuts batches under a new identity from now on. What is under way keeps its own: a partition takes older
// epochs until it has seen the new one.
func (l *loop) adopt(id producer) {
	if l.transactional != "" && id.id != l.producer.id {
		l.log.Warn("Kafka had forgotten the relay's transactional id, so this once it does not fence: " +
			"set its transactional.id.expiration.ms to several days")
	}
	l.producer, l.renewAt = id, l.now.Add(l.opts.RenewInterval)
}

// restamp gives the new identity also to batches that were sent under an old one.
func (l *loop) restamp() {
	for _, tp := range l.topics {
		for _, p := range tp.partitions {
			p.as, p.seq = l.producer, 0
			if p.batch != nil {
				p.batch.stamp(p.as, p.seq)
			}
		}
	}
}
