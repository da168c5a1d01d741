package app

import (
	"context"
	"log/slog"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/checkpoint"
	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/deadletter"
	"github.com/cdc-relay/cdc-relay/internal/kafka"
	"github.com/cdc-relay/cdc-relay/internal/publisher"
	"github.com/cdc-relay/cdc-relay/internal/relay"
	"github.com/cdc-relay/cdc-relay/internal/router"
)

// Router returns a router for what has no dead letters: what would become one is an error.
func Router(c *config.Config, tables []Table) *router.Router {
	return makeRouter(c, tables, router.Options{Policies: c.Errors.Policies().Instead(cdc.PolicyStop)})
}

// ReplayRouter returns the router of a replay, which adds headers to every record. It leaves out no row: replay selects them.
func ReplayRouter(c *config.Config, tables []Table, headers ...cdc.Header) *router.Router {
	return makeRouter(c, tables, router.Options{Headers: headers, Policies: replayed(c), EveryRow: true})
}

// RelayRouter returns the router of a relay, whose publisher has the dead letters.
func RelayRouter(c *config.Config, tables []Table) *router.Router {
	return makeRouter(c, tables, router.Options{Policies: c.Errors.Policies()})
}

// LetterRouter returns the router of dead letters that are published once more. Whatever cannot be published stays a letter. It leaves out
// no row: that was decided before it became a letter.
func LetterRouter(c *config.Config, tables []Table) *router.Router {
	return makeRouter(c, tables, router.Options{Policies: cdc.Policies{Unroutable: cdc.PolicyDeadLetter, Malformed: cdc.PolicyDeadLetter}, EveryRow: true})
}

func makeRouter(c *config.Config, tables []Table, o router.Options) *router.Router {
	o.TopicPrefix, o.Source, o.Skip, o.Reserved = c.TopicPrefix, c.CESource, c.Errors.Skip, c.OwnTopics()
	for i := range tables {
		o.Tables = append(o.Tables, tables[i].Table)
	}
	for _, r := range c.Routes {
		key, partition := r.Placement()
		o.Routes = append(o.Routes, router.Route{Match: r.Match, Topic: r.Topic, Sanitize: r.Sanitize, Key: key, Partition: partition})
	}
	return router.New(o)
}

// Publisher returns what publishes to Kafka. Without letters no event becomes a dead letter. whole is [publisher.Options.Whole].
func Publisher(c *config.Config, problems *cdc.Problems, dropped func(reason string), letters *publisher.LetterOptions, whole bool, log *slog.Logger, reg prometheus.Registerer) *publisher.Publisher {
	o := publisherOptions(c)
	o.Whole = whole
	o.Dropped, o.Problems = dropped, problems
	if letters != nil {
		o.Letters, o.Policies = letters, c.Errors.Policies()
	}
	return publisher.New(o, log, reg)
}

// publisherOptions are those of a publisher without dead letters.
func publisherOptions(c *config.Config) publisher.Options {
	return publisher.Options{
		Kafka: KafkaOptions(c), Compression: c.Kafka.Compression, Create: TopicSpec(c),
		TransactionalID: c.Kafka.TransactionalID, MaxMessageBytes: int(c.Kafka.MaxMessageBytes),
		PositionTopic: PositionTopic(c), RetryInitial: c.Retry.Initial, RetryMax: c.Retry.Max,
		Policies: c.Errors.Policies().Instead(cdc.PolicyStop),
	}
}

// Unfenced returns the publisher of a replay, beside the relay: without a transactional ID it does not fence the relay.
func Unfenced(c *config.Config, dropped func(reason string), problems *cdc.Problems) *publisher.Publisher {
	o := unfenced(c)
	o.Policies, o.Dropped, o.Problems = replayed(c), dropped, problems
	return publisher.New(o, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
}

func unfenced(c *config.Config) publisher.Options {
	o := publisherOptions(c)
	o.TransactionalID, o.PositionTopic = kafka.TransactionalNone, ""
	return o
}

// RelayOptions are those of a relay that reads db; dropped counts what is not published, and nothing what tables leave out.
func RelayOptions(c *config.Config, db Database, dropped func(reason string)) relay.Options {
	var conditions []string
	marks := db.Marks("")
	for i := range marks {
		conditions = append(conditions, marks[i].Condition)
	}
	return relay.Options{
		MaxEvents: c.InFlight.Events, MaxBytes: int(c.InFlight.Bytes), Dropped: dropped, LeftOut: func(string, int) {}, Display: db.Display,
		RetryInitial: c.Retry.Initial, RetryMax: c.Retry.Max,
		StartupTimeout: c.StartupTimeout, ShutdownTimeout: c.ShutdownTimeout, Park: c.Errors.OnStop == "park",
		TransactionalID: kafka.TransactionalID(c.Kafka.TransactionalID, ""), PositionTopic: PositionTopic(c),
		UniqueSource: c.Source.MySQL != nil && c.Source.MySQL.ID != "", Conditions: conditions,
	}
}

// replayed are the policies of a replay: an event that the relay makes a dead letter is left out, and counted.
func replayed(c *config.Config) cdc.Policies { return c.Errors.Policies().Instead(cdc.PolicyDrop) }

// PositionTopic is "" for at-least-once delivery.
func PositionTopic(c *config.Config) string {
	if c.Delivery == config.ExactlyOnce {
		return c.Kafka.PositionTopic
	}
	return ""
}

// TopicSpec is nil where the relay creates no topics.
func TopicSpec(c *config.Config) *kafka.TopicSpec {
	t := c.Topics.Create
	if t == nil {
		return nil
	}
	return &kafka.TopicSpec{Partitions: int32(t.Partitions), ReplicationFactor: int16(t.ReplicationFactor), Configs: t.Config}
}

// KafkaClient returns a client, which connects when it is used.
func KafkaClient(c *config.Config) *kafka.Client { return kafka.NewClient(KafkaOptions(c)) }

// KafkaOptions say how Kafka is reached.
func KafkaOptions(c *config.Config) kafka.Options {
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
		signer := &kafka.MSKToken{Region: s.AWS.Region, RoleARN: s.AWS.RoleARN, Profile: s.AWS.Profile}
		return &kafka.SASL{Mechanism: kafka.OAuthBearer, Token: kafka.CachedToken(signer.Fetch)}
	case s.Mechanism == config.MechanismOAuth && s.OAuth.TokenURL != "":
		o := s.OAuth
		endpoint := &kafka.TokenEndpoint{URL: o.TokenURL, ClientID: o.ClientID, Secret: o.ClientSecret.Reveal, Scopes: o.Scopes, Params: o.Params, TLS: o.TLS.ClientConfig}
		return &kafka.SASL{Mechanism: kafka.OAuthBearer, Token: kafka.CachedToken(endpoint.Fetch), Extensions: o.Extensions}
	case s.Mechanism == config.MechanismOAuth:
		token := func(ctx context.Context, _ string) (string, error) { return s.OAuth.Token.Reveal(ctx) }
		return &kafka.SASL{Mechanism: kafka.OAuthBearer, Token: token, Extensions: s.OAuth.Extensions}
	default:
		return &kafka.SASL{Mechanism: string(s.Mechanism), Username: s.Username, Password: s.Password.Reveal}
	}
}

// Places returns where the relay keeps its position. The caller closes it.
func Places(ctx context.Context, c *config.Config) (*checkpoint.Places, error) {
	s, err := Store(ctx, c)
	if err != nil {
		return nil, err
	}
	return checkpoint.NewPlaces(s, PositionOptions(c)), nil
}

// PositionOptions say where the relay keeps its position. Nothing is connected before the first use.
func PositionOptions(c *config.Config) checkpoint.PlacesOptions {
	return checkpoint.PlacesOptions{
		ExactlyOnce: PositionTopic(c) != "", Topic: c.Kafka.PositionTopic, TransactionalID: c.Kafka.TransactionalID,
		Client: func() *kafka.Client { return KafkaClient(c) },
		Publisher: func() checkpoint.Publisher {
			once := *c
			once.Delivery = config.ExactlyOnce
			return Publisher(&once, nil, func(string) {}, nil, false, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
		},
	}
}

// Store returns where the checkpoint is kept. The caller closes it.
func Store(ctx context.Context, c *config.Config) (checkpoint.Store, error) {
	switch {
	case c.Checkpoint.Redis != nil:
		return checkpoint.NewRedis(ctx, redisOptions(c.Checkpoint.Redis))
	case c.Checkpoint.File != "":
		return checkpoint.NewFile(c.Checkpoint.File), nil
	default:
		return checkpoint.None{}, nil
	}
}

func redisOptions(r *config.Redis) checkpoint.RedisOptions {
	return checkpoint.RedisOptions{
		Mode: checkpoint.Mode(r.Mode), Addrs: r.Addrs, MasterName: r.MasterName, Key: r.Key, DB: r.DB,
		Username: r.Username, Password: r.Password.Reveal, TLS: r.TLS.ClientConfig,
		SentinelUsername: r.SentinelUsername, SentinelPassword: r.SentinelPassword.Reveal,
	}
}

// RouteTopics returns the topics of the routes that are not templates, without repeats.
func RouteTopics(c *config.Config) []string {
	var topics []string
	for _, r := range c.Routes {
		if topic := c.EventTopic(r.Topic); !strings.Contains(topic, "${") && !slices.Contains(topics, topic) {
			topics = append(topics, topic)
		}
	}
	return topics
}

// LetterDesk is where commands look at dead letters.
func LetterDesk(c *config.Config) *deadletter.Desk {
	return &deadletter.Desk{
		Kafka: KafkaOptions(c), Topic: c.DeadLetter.Topic, Index: c.DeadLetter.Index(),
		Open: func(ctx context.Context) (deadletter.Write, func(), error) { return indexWriter(ctx, c) },
	}
}

// indexWriter returns what writes a record into the index of dead letters. It has no transactional ID: it must not fence the
// relay.
func indexWriter(ctx context.Context, c *config.Config) (deadletter.Write, func(), error) {
	o := unfenced(c)
	o.Create = nil
	p := publisher.New(o, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	if err := checkpoint.OpenPublisher(ctx, p, ""); err != nil {
		return nil, nil, err
	}
	seq := uint64(0)
	write := func(ctx context.Context, key, value []byte) error {
		seq++
		m := cdc.Message{Topic: c.DeadLetter.Index(), Key: key, Value: value}
		if err := p.Send(ctx, &cdc.Routed{Batch: &cdc.Batch{Seq: seq}, Messages: []cdc.Message{m}}); err != nil {
			return err
		}
		for {
			select {
			case d := <-p.Durable(): // also of a write whose context ended first
				if d.Err != nil || d.Last >= seq {
					return d.Err
				}
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	return write, p.Kill, nil
}
