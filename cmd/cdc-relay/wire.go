package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/checkpoint"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/kafka"
	"github.com/cdc-relay/cdc-relay/internal/logging"
	"github.com/cdc-relay/cdc-relay/internal/outbox"
	"github.com/cdc-relay/cdc-relay/internal/position"
	"github.com/cdc-relay/cdc-relay/internal/postgres"
	"github.com/cdc-relay/cdc-relay/internal/publisher"
	"github.com/cdc-relay/cdc-relay/internal/relay"
	"github.com/cdc-relay/cdc-relay/internal/retention"
	"github.com/cdc-relay/cdc-relay/internal/router"
	"github.com/cdc-relay/cdc-relay/internal/source"
	"github.com/cdc-relay/cdc-relay/internal/token"
)

// This file turns the configuration into each stage's options, and nothing else.

// logs is the log of a run, whose level can be changed.
type logs struct {
	*slog.Logger

	level   *slog.LevelVar
	limiter *logging.Limiter
}

func newLogs(w io.Writer, c config.Log) *logs {
	level := new(slog.LevelVar)
	level.Set(levelOf(c))
	opts := &slog.HandlerOptions{Level: level, ReplaceAttr: withFix}
	var handler slog.Handler = slog.NewJSONHandler(w, opts)
	if c.Format == config.LogText {
		handler = slog.NewTextHandler(w, opts)
	}
	limiter := logging.Limit(handler)
	return &logs{slog.New(limiter), level, limiter}
}

func levelOf(c config.Log) slog.Level {
	return map[config.LogLevel]slog.Level{
		config.LogDebug: slog.LevelDebug, config.LogInfo: slog.LevelInfo, config.LogWarn: slog.LevelWarn, config.LogError: slog.LevelError,
	}[c.Level]
}

// withFix puts the fix of a logged error beside it.
func withFix(_ []string, a slog.Attr) slog.Attr {
	err, ok := a.Value.Any().(error)
	if !ok || cdc.Fix(err) == "" {
		return a
	}
	return slog.GroupAttrs("", slog.String(a.Key, err.Error()), slog.String("fix", cdc.Fix(err)))
}

// newRouter returns a router for what has no dead letters: what would become one is an error.
func newRouter(c *config.Config, tables []source.Table) (*router.Router, error) {
	return newRouterWith(c, tables, nil)
}

// newRouterWith returns a router that adds headers to every record.
func newRouterWith(c *config.Config, tables []source.Table, headers []cdc.Header) (*router.Router, error) {
	return makeRouter(c, tables, router.Options{
		Headers: headers, Unroutable: kept(c.Errors.Unroutable), Malformed: kept(c.Errors.Malformed),
	})
}

// newRelayRouter returns the router of a relay, whose publisher has the dead letters.
func newRelayRouter(c *config.Config, tables []source.Table) (*router.Router, error) {
	return makeRouter(c, tables, router.Options{Unroutable: c.Errors.Unroutable, Malformed: c.Errors.Malformed})
}

func makeRouter(c *config.Config, tables []source.Table, o router.Options) (*router.Router, error) {
	o.Source, o.Skip, o.Reserved = c.Record.Source, c.Errors.Skip, reserved(c)
	for _, t := range tables {
		o.Tables = append(o.Tables, router.Table{Name: inQuotes(t.Name), Columns: t.Columns, Source: t.URI})
	}
	for _, r := range c.Routes {
		o.Routes = append(o.Routes, router.Route{Match: r.Match, Topic: r.Topic})
	}
	r, err := router.New(o)
	if err != nil {
		return nil, cdc.Stop(cdc.ClassConfig, "config", err, "")
	}
	return r, nil
}

// reserved are the relay's own topics.
func reserved(c *config.Config) []string {
	topics := []string{c.Kafka.PositionTopic}
	if c.DeadLetter.On() {
		topics = append(topics, c.DeadLetter.Topic, c.DeadLetter.Index())
	}
	return topics
}

// knownTopics are the topics that a relay writes to, as far as the configuration names them.
func knownTopics(c *config.Config) []string {
	topics := literalTopics(c)
	if p := positionTopic(c); p != "" {
		topics = append(topics, p)
	}
	if c.DeadLetter.On() {
		topics = append(topics, c.DeadLetter.Topic, c.DeadLetter.Index())
	}
	return topics
}

// inQuotes writes a name as the router reads it, whatever it holds.
func inQuotes(n outbox.Name) string {
	quote := func(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }
	return quote(n.Schema) + "." + quote(n.Table)
}

// newDropped registers the counter of events that the router or the publisher drops.
func newDropped(reg prometheus.Registerer) func(reason string) {
	counter := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "cdc_relay_events_dropped_total",
		Help: "Events not published because the configuration says so (errors.*: drop, errors.skip).",
	}, []string{"reason"})
	reg.MustRegister(counter)
	for _, reason := range []string{"unroutable", "malformed", "unknown_topic", "too_large", "rejected"} { // a rate needs the 0 before the first
		counter.WithLabelValues(reason)
	}
	return func(reason string) { counter.WithLabelValues(reason).Inc() }
}

func newPublisher(c *config.Config, problems *cdc.Problems, dropped func(reason string), letters *publisher.LetterOptions, log *slog.Logger, reg prometheus.Registerer) (*publisher.Publisher, error) {
	o := publisherOptions(c)
	o.Dropped, o.Problems = dropped, problems
	if letters != nil {
		o.Letters = letters
		o.UnknownTopic, o.TooLarge, o.Rejected = c.Errors.UnknownTopic, c.Errors.TooLarge, c.Errors.Rejected
	}
	p, err := publisher.New(o, log, reg)
	if err != nil {
		return nil, cdc.Stop(cdc.ClassConfig, "config", err, "")
	}
	return p, nil
}

func publisherOptions(c *config.Config) publisher.Options {
	return publisher.Options{
		Kafka: kafkaOptions(c), Compression: string(c.Kafka.Compression), Create: topicSpec(c),
		TransactionalID: c.Kafka.TransactionalID, MaxMessageBytes: int(c.Kafka.MaxMessageBytes),
		PositionTopic: positionTopic(c), Watched: knownTopics(c), RetryInitial: c.Retry.Initial, RetryMax: c.Retry.Max,
		UnknownTopic: kept(c.Errors.UnknownTopic), TooLarge: kept(c.Errors.TooLarge), Rejected: kept(c.Errors.Rejected),
	}
}

// kept is the policy of a publisher without dead letters: the event must not be lost.
func kept(p cdc.Policy) cdc.Policy {
	if p == cdc.PolicyDeadLetter {
		return cdc.PolicyStop
	}
	return p
}

// positionTopic is "" for at-least-once delivery.
func positionTopic(c *config.Config) string {
	if c.Delivery == config.ExactlyOnce {
		return c.Kafka.PositionTopic
	}
	return ""
}

// topicSpec is nil where the relay creates no topics.
func topicSpec(c *config.Config) *kafka.TopicSpec {
	t := c.Topics.Create
	if t == nil {
		return nil
	}
	return &kafka.TopicSpec{Partitions: int32(t.Partitions), ReplicationFactor: int16(t.ReplicationFactor), Configs: t.Config}
}

func newKafkaClient(c *config.Config) (*kafka.Client, error) {
	client, err := kafka.NewClient(kafkaOptions(c))
	if err != nil {
		return nil, cdc.Stop(cdc.ClassConfig, "config", err, "")
	}
	return client, nil
}

func kafkaOptions(c *config.Config) kafka.Options {
	o := kafka.Options{Brokers: c.Kafka.Brokers, ClientID: c.Kafka.ClientID, RequestTimeout: c.Kafka.RequestTimeout}
	if c.Kafka.TLS != nil {
		o.TLS = c.Kafka.TLS.ClientConfig
	}
	if s := c.Kafka.SASL; s != nil {
		o.SASL = kafkaSASL(s)
	}
	return o
}

func kafkaSASL(s *config.SASL) *kafka.SASL {
	switch {
	case s.Mechanism == config.MechanismMSK:
		signer := &token.MSK{Region: s.AWS.Region, RoleARN: s.AWS.RoleARN, Profile: s.AWS.Profile}
		return &kafka.SASL{Mechanism: kafka.OAuthBearer, Token: token.Cached(signer.Fetch)}
	case s.Mechanism == config.MechanismOAuth && s.OAuth.TokenURL != "":
		o := s.OAuth
		endpoint := &token.Endpoint{URL: o.TokenURL, ClientID: o.ClientID, Secret: o.ClientSecret.Reveal, Scopes: o.Scopes, Params: o.Params}
		if o.TLS != nil {
			endpoint.TLS = o.TLS.ClientConfig
		}
		return &kafka.SASL{Mechanism: kafka.OAuthBearer, Token: token.Cached(endpoint.Fetch), Extensions: o.Extensions}
	case s.Mechanism == config.MechanismOAuth:
		return &kafka.SASL{Mechanism: kafka.OAuthBearer, Token: s.OAuth.RevealToken, Extensions: s.OAuth.Extensions}
	default:
		return &kafka.SASL{Mechanism: string(s.Mechanism), Username: s.Username, Password: s.Reveal}
	}
}

// checkpointLocation says where the checkpoint is stored; "" if nowhere.
func checkpointLocation(c *config.Config) string {
	switch {
	case c.Checkpoint.Redis != nil:
		return fmt.Sprintf("redis %s, key %s", strings.Join(c.Checkpoint.Redis.Addrs, ","), c.Checkpoint.Redis.Key)
	case c.Checkpoint.File != "":
		return "file " + c.Checkpoint.File
	default:
		return ""
	}
}

// templated reports whether a route's topic depends on the row.
func templated(topic string) bool { return strings.Contains(topic, "${") }

// newPlaces returns where the relay keeps its position.
func newPlaces(ctx context.Context, c *config.Config) (*position.Places, error) {
	s, err := newStore(ctx, c)
	if err != nil {
		return nil, err
	}
	return position.New(s, positionOptions(c)), nil
}

func positionOptions(c *config.Config) position.Options {
	return position.Options{
		ExactlyOnce: positionTopic(c) != "", Topic: c.Kafka.PositionTopic, TransactionalID: c.Kafka.TransactionalID, Place: checkpointLocation(c),
		Client: func() (*kafka.Client, error) { return newKafkaClient(c) },
		Publisher: func() (position.Publisher, error) {
			once := *c
			once.Delivery = config.ExactlyOnce
			return newPublisher(&once, nil, func(string) {}, nil, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
		},
	}
}

func newStore(ctx context.Context, c *config.Config) (position.Store, error) {
	switch {
	case c.Checkpoint.Redis != nil:
		return checkpoint.NewRedis(ctx, redisOptions(c.Checkpoint.Redis))
	case c.Checkpoint.File != "":
		return checkpoint.NewFile(c.Checkpoint.File)
	default:
		return checkpoint.None{}, nil
	}
}

func redisOptions(r *config.Redis) checkpoint.RedisOptions {
	o := checkpoint.RedisOptions{
		Mode: checkpoint.Mode(r.Mode), Addrs: r.Addrs, MasterName: r.MasterName, Key: r.Key, DB: r.DB,
		Username: r.Username, Password: r.Reveal,
		SentinelUsername: r.SentinelUsername, SentinelPassword: r.RevealSentinel,
	}
	if r.TLS != nil {
		o.TLS = func() (*tls.Config, error) { return r.TLS.ClientConfig() }
	}
	return o
}

// maintainers run side by side.
type maintainers []relay.Maintainer

// Run ends when all have ended.
func (m maintainers) Run(ctx context.Context) {
	var running sync.WaitGroup
	for _, each := range m {
		running.Go(func() { each.Run(ctx) })
	}
	running.Wait()
}

// newMaintainer returns what looks after the tables; nothing where the configuration leaves them alone.
func newMaintainer(c *config.Config, db source.Database, load cdc.Loader, log *slog.Logger, reg prometheus.Registerer) (all maintainers, err error) {
	dsn, err := db.ConnString("")
	if err != nil {
		return nil, err
	}
	guard := (&needed{c, db, dsn, nil}).check
	if c.Partitions != nil {
		all = append(all, retention.New(retentionOptions(c.Partitions), db.Partitions(dsn, false, load), guard, log, retention.NewMetrics(reg)))
	}
	if c.Retention != nil {
		all = append(all, retention.NewPurger(purgeOptions(c.Retention.Delete), db.Rows(dsn, load), guard, log, reg))
	}
	return all, nil
}

func retentionOptions(p *config.Partitions) retention.Options {
	return retention.Options{Ahead: p.Ahead, TTL: p.Age(), Every: p.Every, Drop: p.Drop}
}

func relayOptions(c *config.Config, dropped func(reason string)) relay.Options {
	return relay.Options{
		MaxEvents: c.Window.Events, MaxBytes: int(c.Window.Bytes), Dropped: dropped, Display: postgres.DisplayPosition,
		RetryInitial: c.Retry.Initial, RetryMax: c.Retry.Max,
		StartupTimeout: c.StartupTimeout, ShutdownTimeout: c.ShutdownTimeout, Park: c.Errors.OnStop == config.OnStopPark,
		TransactionalID: kafka.TransactionalID(c.Kafka.TransactionalID, ""), PositionTopic: positionTopic(c),
		UniqueSource: c.Source.MySQL != nil && c.Source.MySQL.ID != "",
	}
}

// literalTopics returns the topics of the routes that are not templates, without repeats.
func literalTopics(c *config.Config) []string {
	var topics []string
	seen := map[string]bool{}
	for _, r := range c.Routes {
		if !templated(r.Topic) && !seen[r.Topic] {
			seen[r.Topic] = true
			topics = append(topics, r.Topic)
		}
	}
	return topics
}
