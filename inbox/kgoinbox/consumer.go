package kgoinbox

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cdc-relay/cdc-relay/inbox"
	"github.com/cdc-relay/cdc-relay/inbox/lanes"
	"github.com/cdc-relay/cdc-relay/inbox/parking"
)

// Consumer consumes topics in a group. Each Run has a client of its own.
type Consumer[Tx any] struct {
	config  Config
	in      *inbox.Inbox[Tx]
	parking *parking.Parking[Tx]
	handle  inbox.Handler[Tx]
}

// New returns a consumer that gives messages to the registry's handlers. It does not connect.
//
// A message that cannot be recorded (no ID or source, two, or a longer one than the table takes) stops Run with an error:
// it cannot be parked either, and to skip it would be to lose it. Config.IDFrom and inbox.WithSource give it both.
func New[Tx any](in *inbox.Inbox[Tx], handlers *inbox.Registry[Tx], c Config) (*Consumer[Tx], error) {
	if handlers == nil {
		return nil, errors.New("make consumer: the registry is nil: give New one with handlers")
	}
	if c.Keep < 0 {
		return nil, fmt.Errorf("make consumer: Keep is %v: set how long rows are kept, or 0 to keep all", c.Keep)
	}
	parked, err := parking.New(in, c.Parking...)
	if err != nil {
		return nil, err
	}
	return &Consumer[Tx]{config: c.withDefaults(), in: in, parking: parked, handle: handlers.Handle}, nil
}

// Parking returns the parking, to list, retry and drop.
func (c *Consumer[Tx]) Parking() *parking.Parking[Tx] { return c.parking }

// topicPartition is a partition of a topic.
type topicPartition struct {
	topic     string
	partition int32
}

// run is one Run.
type run[Tx any] struct {
	*Consumer[Tx]

	client   *kgo.Client
	workers  lanes.Workers
	gate     *gate
	troubles *troubles
	cancel   context.CancelCauseFunc // ends Run, with a *stopped

	// commits is held while offsets are read and committed, and while a partition is given up: otherwise the commit of a
	// partition that another consumer has meanwhile could set its offset back.
	commits   sync.Mutex
	committed map[topicPartition]int64

	memory memory

	mu         sync.Mutex
	partitions map[topicPartition]*partition[Tx]
}

// memory counts the bytes of messages that were polled and are not finished.
type memory struct {
	used, share atomic.Int64
	freed       chan struct{}
}

func (m *memory) add(bytes int) {
	m.used.Add(int64(bytes))
	select {
	case m.freed <- struct{}{}:
	default:
	}
}

// share is what a partition may hold before it is paused. Half of it is left for what is fetched before that, so that partitions that
// do not get on leave room for the others.
func (r *run[Tx]) share() int { return int(r.memory.share.Load()) }

// shareOut is called with r.mu.
func (r *run[Tx]) shareOut() {
	r.memory.share.Store(int64(r.config.Bytes / 2 / max(1, len(r.partitions))))
}

// awaitMemory waits until there is room for what a poll returns.
func (r *run[Tx]) awaitMemory(ctx context.Context) {
	for r.memory.used.Load() >= int64(r.config.Bytes) {
		select {
		case <-r.memory.freed:
		case <-ctx.Done():
			return
		}
	}
}

// Run consumes until ctx ends and returns nil after handlers have ended (Config.Drain) and offsets are committed, or returns
// the error that stops it: a missing table, a database that takes no writes when Run begins, a message without ID or source,
// one that cannot be handled if Config.Stop is set, Kafka's refusal of the group, a topic or the credentials, or a topic that
// was deleted.
//
// While the database fails later on, or no broker answers, Run goes on and logs it: when it begins, each minute, and when it ends.
func (c *Consumer[Tx]) Run(ctx context.Context) error {
	if err := errors.Join(c.in.Check(ctx), c.parking.Check(ctx)); err != nil && ctx.Err() == nil {
		return err
	}
	running, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r := c.newRun(cancel)
	work, end := context.WithCancel(context.WithoutCancel(ctx)) // handlers outlive ctx by Config.Drain
	defer end()
	if err := r.connect(work); err != nil {
		return err
	}
	var beside sync.WaitGroup
	beside.Go(func() { r.commitRegularly(running) })
	beside.Go(func() { r.watchBrokers(running) })
	if c.config.Keep > 0 {
		beside.Go(func() { r.purgeRegularly(running) })
	}
	r.poll(running)
	beside.Wait()
	r.giveUp(work, nil, true)
	r.client.CloseAllowingRebalance()
	if s, ok := errors.AsType[*stopped](context.Cause(running)); ok {
		return s.error
	}
	return nil
}

func (c *Consumer[Tx]) newRun(cancel context.CancelCauseFunc) *run[Tx] {
	return &run[Tx]{
		Consumer: c, workers: lanes.NewWorkers(c.config.Workers), gate: newGate(c.config.pause), troubles: newTroubles(c.config.Logger), cancel: cancel,
		memory: memory{freed: make(chan struct{}, 1)}, committed: map[topicPartition]int64{}, partitions: map[topicPartition]*partition[Tx]{},
	}
}

// stopped is the cause of a Run that ended itself.
type stopped struct{ error }

// connect makes the client. It blocks changes of the group while polled records are handed out, which takes no time: records
// of a partition that was given up in between could not be told from those after it came back.
func (r *run[Tx]) connect(work context.Context) (err error) {
	list := func(parts map[string][]int32, each func(topicPartition)) {
		for topic, ps := range parts {
			for _, p := range ps {
				each(topicPartition{topic, p})
			}
		}
	}
	lose := func(commit bool) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, parts map[string][]int32) {
			lost := map[topicPartition]bool{}
			list(parts, func(p topicPartition) { lost[p] = true })
			if len(lost) > 0 {
				r.giveUp(work, lost, commit)
			}
		}
	}
	r.client, err = kgo.NewClient(append(append([]kgo.Opt{kgo.FetchMaxBytes(int32(min(r.config.Bytes/8, 50<<20)))}, r.config.Client...), // 50 MiB is franz-go's default
		kgo.DisableAutoCommit(), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, parts map[string][]int32) {
			r.mu.Lock()
			defer r.mu.Unlock()
			list(parts, func(p topicPartition) { r.partitions[p] = newPartition(work, r, p) })
			r.shareOut()
		}),
		kgo.OnPartitionsRevoked(lose(true)), kgo.OnPartitionsLost(lose(false)))...)
	if err != nil {
		return fmt.Errorf("make Kafka client (Config.Client needs kgo.ConsumerGroup and kgo.ConsumeTopics): %w", err)
	}
	return nil
}

// poll hands out records until ctx ends.
func (r *run[Tx]) poll(ctx context.Context) {
	for ctx.Err() == nil {
		r.awaitMemory(ctx)
		fetches := r.client.PollFetches(ctx)
		failed := false
		fetches.EachError(func(topic string, partition int32, err error) {
			if failed = ctx.Err() == nil; failed {
				r.fetchError(topic, partition, err)
			}
		})
		fetches.EachRecord(func(record *kgo.Record) {
			r.mu.Lock()
			p := r.partitions[topicPartition{record.Topic, record.Partition}]
			r.mu.Unlock()
			if p != nil && ctx.Err() == nil {
				p.hold(r.config.message(record))
			}
		})
		r.client.AllowRebalance()
		if failed { // franz-go would try again at once
			wait(ctx, fetchPause)
		}
	}
}

// fail ends Run with an error.
func (r *run[Tx]) fail(err error) { r.cancel(&stopped{err}) }

const (
	fetchPause   = 100 * time.Millisecond
	fetchesAgain = 10 * time.Second // without an error; franz-go does not say that it fetches again
	pingPause    = 10 * time.Second
	pingTime     = 4 * time.Second

	// topicMissing ends Run. Kafka does not know a topic either for a moment after it was made.
	topicMissing = 30 * time.Second
)

// watchBrokers logs that no broker answers, which franz-go does not say, and the topics that do not exist.
func (r *run[Tx]) watchBrokers(ctx context.Context) {
	for asked := false; ; {
		err := r.ping(ctx)
		if err == nil && !asked {
			asked = r.reportMissing(ctx)
		}
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			r.troubles.fails(trouble{what: noBroker}, err, "brokers", r.client.OptValue(kgo.SeedBrokers))
		default:
			r.troubles.ends(trouble{what: noBroker})
		}
		if !wait(ctx, pingPause) {
			return
		}
	}
}

// ping does not wait longer than pingTime, as franz-go's Ping would while another request opens the connection.
func (r *run[Tx]) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, pingTime, fmt.Errorf("no answer within %v", pingTime))
	defer cancel()
	answer := make(chan error, 1)
	go func() { answer <- r.client.Ping(ctx) }()
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// reportMissing logs the topics that do not exist: franz-go waits for them and says nothing. It reports false if Kafka did not
// answer.
func (r *run[Tx]) reportMissing(ctx context.Context) bool {
	ask := kmsg.NewPtrMetadataRequest()
	for _, name := range r.client.GetConsumeTopics() {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = &name
		ask.Topics = append(ask.Topics, topic)
	}
	if len(ask.Topics) == 0 {
		return true // chosen by an expression
	}
	answer, err := ask.RequestWith(ctx, r.client)
	if err != nil {
		return false
	}
	for _, t := range answer.Topics {
		if t.ErrorCode == kerr.UnknownTopicOrPartition.Code {
			r.config.Logger.Warn("topic does not exist: it is consumed once it does", "topic", *t.Topic)
		}
	}
	return true
}

// fetchError logs what franz-go reports with fetches. It goes on by itself, and does not report what may pass, unless Kafka refuses. It
// does not fetch from a topic that was deleted and made anew, because its offsets mean other records.
func (r *run[Tx]) fetchError(topic string, partition int32, err error) {
	of := trouble{what: fetchFails, topic: topic}
	if k, ok := errors.AsType[*kerr.Error](err); ok {
		of.code = k.Message
	}
	lasted := r.troubles.fails(of, err, "topic", topic, "partition", partition)
	if lasted >= topicMissing && (errors.Is(err, kerr.UnknownTopicID) || errors.Is(err, kerr.UnknownTopicOrPartition)) {
		r.fail(fmt.Errorf("fetch %s[%d]: %w for %v: the topic was deleted, or deleted and made anew: %s, and run the consumer again when it is there", topic, partition, err, lasted.Round(time.Second), dropOld))
	}
	for _, refusal := range []error{
		kerr.TopicAuthorizationFailed, kerr.GroupAuthorizationFailed, kerr.ClusterAuthorizationFailed, kerr.SaslAuthenticationFailed, kerr.InvalidGroupID,
	} {
		if errors.Is(err, refusal) {
			r.fail(fmt.Errorf("fetch %s[%d]: %w: correct the group's name, the credentials, or this user's READ on the topic and the group", topic, partition, err))
		}
	}
}

func (r *run[Tx]) commitRegularly(ctx context.Context) {
	every := time.NewTicker(r.config.CommitInterval)
	defer every.Stop()
	for {
		select {
		case <-every.C:
			r.commits.Lock()
			r.commit(ctx, r.owned(nil))
			r.commits.Unlock()
			r.troubles.sweep(fetchFails, fetchesAgain)
		case <-ctx.Done():
			return
		}
	}
}

// owned returns the partitions among these, nil is all.
func (r *run[Tx]) owned(among map[topicPartition]bool) map[topicPartition]*partition[Tx] {
	r.mu.Lock()
	defer r.mu.Unlock()
	found := map[topicPartition]*partition[Tx]{}
	for at, p := range r.partitions {
		if among == nil || among[at] {
			found[at] = p
		}
	}
	return found
}

// commitTime bounds a commit of offsets. What is not committed is a repeat in the inbox.
const commitTime = 10 * time.Second

// commit commits what is finished. An error is logged only: the next commit says the same or more.
func (r *run[Tx]) commit(ctx context.Context, of map[topicPartition]*partition[Tx]) {
	offsets := map[string]map[int32]kgo.EpochOffset{}
	for at, p := range of {
		next := p.lanes.Next()
		if last, ok := r.committed[at]; next < 0 || (ok && last == next) {
			continue
		}
		if offsets[at.topic] == nil {
			offsets[at.topic] = map[int32]kgo.EpochOffset{}
		}
		offsets[at.topic][at.partition] = kgo.EpochOffset{Epoch: -1, Offset: next}
	}
	if len(offsets) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, commitTime)
	defer cancel()
	r.client.CommitOffsetsSync(ctx, offsets, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, answer *kmsg.OffsetCommitResponse, err error) {
		if err != nil {
			r.config.Logger.Warn("commit offsets", "error", err)
			return
		}
		for _, t := range answer.Topics {
			for _, p := range t.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					r.config.Logger.Warn("commit offset", "topic", t.Topic, "partition", p.Partition, "error", err)
					continue
				}
				r.committed[topicPartition{t.Topic, p.Partition}] = offsets[t.Topic][p.Partition].Offset
			}
		}
	})
}

// giveUp stops partitions, nil is all, commits what they finished, and forgets them.
func (r *run[Tx]) giveUp(ctx context.Context, lost map[topicPartition]bool, commit bool) {
	r.commits.Lock()
	defer r.commits.Unlock()
	owned := r.owned(lost)
	limit, cancel := context.WithTimeout(ctx, r.config.Drain)
	defer cancel()
	if !commit {
		cancel() // another consumer has them already
	}
	var all sync.WaitGroup
	for at, p := range owned {
		all.Go(func() {
			if err := p.stop(limit); err != nil && commit {
				r.config.Logger.Warn("stop partition: what handlers did not finish is handled again", "topic", at.topic, "partition", at.partition, "error", err)
			}
		})
	}
	all.Wait()
	if commit {
		r.commit(ctx, owned)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for at := range owned {
		delete(r.partitions, at)
		delete(r.committed, at)
	}
	r.shareOut()
}
