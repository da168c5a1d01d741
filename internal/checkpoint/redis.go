package checkpoint

import (
	"context"
	_ "embed" // the scripts
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

//go:embed save.lua
var saveScript string

//go:embed probe.lua
var probeScript string

// callTimeout limits one call with all its steps: find the master, connect, log in, ask. A caller needs the result soon,
// even an error: while Redis is away the confirmed position does not move.
const callTimeout = 3 * time.Second

// Redis keeps the checkpoint as the value of one key. It is safe for concurrent use.
type Redis struct {
	client      redis.UniversalClient
	options     RedisOptions
	server      string // for errors: "redis 10.0.0.5:6379"
	location    location
	save, probe *redis.Script
	// last is what was stored last; nil: nothing yet. What worked once is expected to work again, so from then on a
	// refused password is retried instead of ending the run.
	last atomic.Pointer[[]byte]
}

// NewRedis returns a store that connects at the first call. An error is a
// [cdc.StopError] of [cdc.ClassConfig], unless ctx was cancelled.
func NewRedis(ctx context.Context, o RedisOptions) (*Redis, error) {
	client, err := o.client(ctx)
	if errors.Is(err, context.Canceled) {
		return nil, err
	}
	if err != nil {
		return nil, cdc.Stop(cdc.ClassConfig, "checkpoint_config", err, "")
	}
	return &Redis{
		client:   client,
		options:  o,
		server:   o.describe(),
		location: location{name: fmt.Sprintf("redis key %s", o.Key), setting: "checkpoint.redis.key"},
		save:     redis.NewScript(saveScript),
		probe:    redis.NewScript(probeScript),
	}, nil
}

// Location names the servers and the key.
func (r *Redis) Location() string {
	return fmt.Sprintf("redis %s, key %s", strings.Join(r.options.Addrs, ","), r.options.Key)
}

// Load returns what is stored. It blocks for at most three seconds.
func (r *Redis) Load(ctx context.Context) (c cdc.Checkpoint, found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	value, err := r.client.Get(ctx, r.options.Key).Bytes()
	switch {
	case err == redis.Nil: //nolint:errorlint // sentinels that do not know the master wrap it, and that does not mean an empty key
		return cdc.Checkpoint{}, false, nil
	case says(err, "WRONGTYPE"):
		return cdc.Checkpoint{}, false, r.otherType(err)
	case err != nil:
		return cdc.Checkpoint{}, false, r.explain("load checkpoint", err)
	}
	return r.location.load(value)
}

// Save stores c unless it is refused (see the package comment). It blocks for at most three seconds.
// After an error that is not a refusal c may be stored nevertheless: save it again, or the next one.
func (r *Redis) Save(ctx context.Context, c cdc.Checkpoint) error { return r.store(ctx, c, nil) }

// Claim is Save if loaded is still stored, or nothing is.
func (r *Redis) Claim(ctx context.Context, next, loaded cdc.Checkpoint) error {
	return r.store(ctx, next, &loaded)
}

// store is Save, or a claim that replaces a checkpoint. It compares c with what is stored, and then replaces exactly that: one call, if that is
// what was stored last.
func (r *Redis) store(ctx context.Context, c cdc.Checkpoint, replaces *cdc.Checkpoint) error {
	value, err := encode(c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	compared := value
	if last := r.last.Load(); last != nil && r.location.mayStore(c, value, *last, replaces) == nil {
		compared = *last
	}
	for { // while others save
		answer, err := r.save.Run(ctx, r.client, []string{r.options.Key}, value, compared).Result()
		stored, refused := answer.(string)
		switch {
		case says(err, "WRONGTYPE"):
			return r.otherType(err)
		case err != nil:
			return r.explain("save checkpoint", err)
		case answer == int64(1):
			r.last.Store(&value)
			return nil
		case !refused: // as a proxy may answer, and nothing was stored for certain
			return fmt.Errorf("save checkpoint: unexpected answer of the script in %s", r.server)
		}
		compared = []byte(stored)
		if err := r.location.mayStore(c, value, compared, replaces); err != nil {
			return err
		}
	}
}

// otherType returns the error for a key that is not a string: it is not ours.
func (r *Redis) otherType(err error) error {
	return cdc.Stop(cdc.ClassPosition, "checkpoint_type", &failure{
		text: fmt.Sprintf("%s holds no checkpoint that can be used (%v)", r.location.name, err),
		err:  err,
	}, "set checkpoint.redis.key to a key that nothing else uses")
}

// resetLasts is how long a reset fences a relay that still runs. Such a relay fails and is noticed much sooner.
const resetLasts = 7 * 24 * time.Hour

// Reset deletes the checkpoint of any source and fences a relay that still runs: it stores a mark with a higher
// generation, so that the relay's next save is refused with [cdc.ErrFenced] and does not bring the deleted position
// back. Load returns no checkpoint then. The mark is replaced by the next run's first save, or expires after a week.
func (r *Redis) Reset(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	value, err := r.client.Get(ctx, r.options.Key).Bytes()
	if err != nil && !errors.Is(err, redis.Nil) && !says(err, "WRONGTYPE") {
		return r.explain("reset checkpoint", err)
	}
	mark, err := encodeReset(value, time.Now())
	if err != nil {
		return err
	}
	if err := r.client.Set(ctx, r.options.Key, mark, resetLasts).Err(); err != nil {
		return r.explain("reset checkpoint", err)
	}
	return nil
}

// Close closes the connections.
func (r *Redis) Close() error {
	if err := r.client.Close(); err != nil {
		return fmt.Errorf("close %s: %w", r.server, err)
	}
	return nil
}

// LogTo sends what the Redis client logs by itself (failed dials, failovers) to logger at debug level.
// Call it once, from main: the client asks one package variable, [redis.SetLogger], and neither its options nor a
// client take a logger (go-redis 9). Without it those lines go to standard error in a form of their own.
func LogTo(logger *slog.Logger) { redis.SetLogger(clientLog{logger}) }

type clientLog struct{ logger *slog.Logger }

// Printf is the client's logging interface.
func (l clientLog) Printf(ctx context.Context, format string, v ...any) {
	l.logger.DebugContext(ctx, "redis client", slog.String("text", fmt.Sprintf(format, v...)))
}
