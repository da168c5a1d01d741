package publisher

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/IBM/sarama"
	"github.com/cenkalti/backoff/v5"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/kafka"
)

// job is a request to the cluster, outside of the loop, which gets the result as a notice.
type job func(ctx context.Context, c *kafka.Client) notice

// jobQueue has jobs of one kind: one is out at a time.
type jobQueue struct {
	jobs    chan<- job
	out     bool
	at      time.Time // when it was submitted
	next    time.Time // when the next one may be
	backoff *backoff.ExponentialBackOff
	trouble trouble
}

func (q *jobQueue) submit(l *loop, j job) {
	q.out, q.at = true, l.now
	q.jobs <- j // has room for the one that may be out
}

// runJobs runs the loop's jobs.
func runJobs(ctx context.Context, c *kafka.Client, jobs <-chan job, mail *mailbox) {
	defer c.Close()
	for {
		select {
		case <-ctx.Done():
			return
		case j := <-jobs:
			mail.post(j(ctx, c))
		}
	}
}

// metadataJob requests leaders and limits, and creates missing topics where configured.
type metadataJob struct {
	topics []string
	limits []string // topics whose limit is not known
	create *kafka.TopicSpec
	own    []string // topics that are not created
	// again: another broker is to answer.
	again bool
}

type metadataResult struct {
	job     metadataJob
	md      *sarama.MetadataResponse
	limits  map[string]int   // nil: not read
	created map[string]error // the outcome for each topic that was missing
	err     error
}

func (j metadataJob) run(ctx context.Context, c *kafka.Client) notice {
	if j.again {
		c.Leave()
	}
	r := metadataResult{job: j}
	if r.md, r.err = c.Metadata(ctx, j.topics); r.err != nil {
		return r
	}
	if j.create != nil {
		r.created = c.CreateMissing(ctx, r.md, j.create, j.own...)
	}
	if len(j.limits) > 0 {
		// After an error the configured limit stands, and the next metadata job reads it again.
		r.limits, _ = c.MaxMessageBytes(ctx, j.limits)
	}
	return r
}

// Fenced reports whether another publisher has been opened with the transactional ID since; false also where Kafka does not say. It renews
// the producer epoch, which Kafka rejects without an effect where another one has taken over. The loop keeps the old epoch: it is about to be
// killed, and until then that one is valid, and may be renewed once more.
func (p *Publisher) Fenced(ctx context.Context) bool {
	var id string
	var current kafka.Producer
	var lost bool
	known := make(chan struct{})
	p.mail.post(call(func(l *loop) {
		id, current, lost = l.transactionalID, l.producer, l.renewalLost
		close(known)
	}))
	if await(ctx, p, known, nil) != nil || id == "" {
		return false
	}
	client := kafka.NewClient(p.opts.Kafka)
	defer client.Close()
	_, err := client.Renew(ctx, id, current, lost)
	return cdc.ClassOf(err) == cdc.ClassFenced
}

// wantMetadata requests a topic's metadata with the next job.
func (l *loop) wantMetadata(tp *topic) {
	if !tp.wanted && tp.err == nil {
		tp.wanted = true
		l.wanted = append(l.wanted, tp)
	}
}

// submitDue submits the next job, if there is one and its time has come.
func (l *loop) submitDue() {
	if l.jobs.out {
		return
	}
	if l.now.Before(l.jobs.next) {
		if l.producerLost || len(l.wanted) > 0 {
			l.wakeAt(l.jobs.next)
		}
		return
	}
	switch {
	case l.producerLost && l.openRequests == 0 && !l.fenced:
		l.submitRenewal(false)
	case l.renews() && !l.producerLost && !l.now.Before(l.renewAt): // rarely, so that metadata, of which there may always be some to request, does not wait for it
		l.submitRenewal(true)
	case len(l.wanted) > 0:
		l.jobs.submit(l, l.metadataJob().run)
	case l.renews() && !l.producerLost: // else it may be overdue, and the loop would spin
		l.wakeAt(l.renewAt)
	}
}

// submitRenewal requests a producer ID and epoch in place of the current ones. routine: these are still valid.
func (l *loop) submitRenewal(routine bool) {
	current, lost := l.producer, l.renewalLost
	l.jobs.submit(l, func(ctx context.Context, c *kafka.Client) notice {
		p, err := c.Renew(ctx, l.transactionalID, current, lost)
		return call(func(l *loop) { l.renewed(p, err, routine) })
	})
}

// leaveInterval is the least time between two metadata requests that go to another broker: one may go to a host that is dead, and then nothing
// else is requested for 5 s. Metadata that is requested again within this time was of no use.
const leaveInterval = 10 * time.Second

func (l *loop) metadataJob() metadataJob {
	j := metadataJob{create: l.opts.Create}
	for _, tp := range l.wanted {
		j.again = j.again || l.now.Sub(tp.askedAt) < leaveInterval
		if tp.own {
			j.own = append(j.own, tp.name)
		}
		tp.wanted, tp.askedAt = false, l.now
		j.topics = append(j.topics, tp.name)
		if tp.limitStale {
			j.limits = append(j.limits, tp.name)
		}
	}
	switch {
	case !j.again:
	case l.now.Sub(l.leaveAt) > leaveInterval: // the first one of no use: mostly a leader is being elected, which passes
		j.again, l.leaveAt = false, l.now.Add(l.opts.Timing.Patience/2)
	case l.now.Before(l.leaveAt):
		j.again = false
	default:
		l.leaveAt = l.now.Add(leaveInterval)
	}
	clear(l.wanted)
	l.wanted = l.wanted[:0]
	return j
}

// jobInterval lets topics that are wanted at about the same time share a request.
const jobInterval = 50 * time.Millisecond

// jobDone schedules the next job: soon, or after a backoff when no broker responds.
func (l *loop) jobDone(err error) {
	l.jobs.out = false
	if err == nil {
		l.jobs.next = l.now.Add(min(l.opts.RetryInitial, jobInterval))
		l.passed(&l.jobs.trouble)
		return
	}
	l.met(&l.jobs.trouble, l.jobs.at, err)
	l.delayJobs(l.opts.RetryMax)
	l.logFailure("", err)
}

// delayJobs waits for a backoff of at most limit.
func (l *loop) delayJobs(limit time.Duration) {
	l.jobs.next = l.after(&l.jobs.backoff, limit)
}

func (r metadataResult) apply(l *loop) {
	l.jobDone(r.err)
	if r.err != nil {
		for _, name := range r.job.topics {
			if tp := l.topics[name]; tp != nil {
				tp.lastError = repeatedError{}
				l.wantMetadata(tp)
			}
		}
		return
	}
	l.applyBrokers(r.md)
	for _, md := range r.md.Topics {
		tp := l.topics[md.Name]
		if tp == nil {
			continue
		}
		if err, missing := r.created[md.Name]; missing {
			switch {
			case err == nil:
				l.log.Info("topic created", cdc.Repeats(), slog.String("name", tp.name), slog.Any("partitions", l.opts.Create.Partitions))
				l.wantMetadata(tp)
			case errors.Is(err, sarama.ErrTopicAlreadyExists): // the metadata lags
				l.wantMetadata(tp)
			default:
				l.createFailed(tp, err)
			}
			continue
		}
		tp.lastError.again = tp.lastError.again || r.job.again
		l.applyMetadata(tp, md, r.limits[md.Name])
	}
	l.forgetMissing()
	if len(l.wanted) > 0 { // a leader or a topic is missing: for a moment, or for longer
		l.delayJobs(min(l.opts.RetryMax, leaderInterval))
	} else {
		l.jobs.backoff = nil
	}
}

// createFailed tries again to create a topic; for ever, unless a broker rejects it.
func (l *loop) createFailed(tp *topic, err error) {
	var code sarama.KError
	responded := errors.As(err, &code)
	if o := classify(code); !responded || o == temporary || o == moved {
		tp.lastError = repeatedError{}
		l.met(&tp.failing, l.now, err)
		l.wantMetadata(tp)
		return
	}
	l.whenRepeated(tp, code, func() {
		l.haltTopic(tp, cdc.Stop(cdc.ClassConfig, "topic_create", kafka.CreateError(tp.name, err), ""))
	})
}

func (l *loop) applyBrokers(md *sarama.MetadataResponse) {
	for _, announced := range md.Brokers {
		b := l.brokerByID(announced.ID())
		if b == nil {
			b = &brokerState{id: announced.ID(), addr: announced.Addr()}
			l.brokers = append(l.brokers, b)
		}
		if b.addr != announced.Addr() {
			b.addr = announced.Addr()
			if b.conn != nil {
				l.closeConn(b.conn, errMoved)
			}
		}
	}
}

// renews reports whether there is anything to renew. A transaction's commit keeps the transactional ID alive.
func (l *loop) renews() bool { return l.transactionalID != "" && !l.transactional }

// needProducer requests a new producer ID or epoch, whose sequence numbers begin at 0, once nothing is in flight. The
// batches that were in flight are sent again first, so that the order holds; they may be published twice.
//
// A transaction ends with its producer: what it has sent is aborted.
func (l *loop) needProducer(cause error) {
	if !l.txn.loseProducer(cause) && !l.producerLost {
		l.producerLost = true
		l.log.Warn("a new producer ID is needed: events in flight may be published twice", cdc.Repeats(), slog.Any("error", cause))
	}
}

func (l *loop) renewed(p kafka.Producer, err error, routine bool) {
	l.jobDone(err)
	fenced := cdc.ClassOf(err) == cdc.ClassFenced
	l.renewalLost = err != nil && (l.renewalLost || !fenced)
	switch {
	case err != nil && routine: // the old one is valid, unless brokers reject a batch
		l.renewAt = l.now.Add(l.opts.Timing.RenewInterval / 24)
		l.log.Warn("fencing in Kafka not renewed, retrying later", cdc.Repeats(), slog.Any("error", err))
	case fenced:
		l.fenced = true
		l.stopAt(0, nil, err)
	case err == nil:
		l.adopt(p)
		if !routine {
			l.producerLost = false
			l.restamp()
		}
	}
}

// adopt uses p for new batches. Batches in flight keep the old epoch, which a partition accepts until it sees the new
// one.
func (l *loop) adopt(p kafka.Producer) {
	if l.transactionalID != "" && p.ID != l.producer.ID {
		l.log.Warn("Kafka had forgotten the relay's transactional ID, so this start is not fenced: " +
			"set its transactional.id.expiration.ms to several days")
	}
	l.producer, l.renewAt = p, l.now.Add(l.opts.Timing.RenewInterval)
}

// restamp also gives the new producer ID and epoch to batches that were sent with the old one.
func (l *loop) restamp() {
	for _, tp := range l.topics {
		for _, p := range tp.partitions {
			p.producer, p.seq = l.producer, 0
			if p.batch != nil {
				p.batch.producer, p.batch.seq = p.producer, p.seq
			}
		}
	}
}
