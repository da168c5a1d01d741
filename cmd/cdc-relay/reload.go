package main

import (
	"context"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/cdc-relay/cdc-relay/internal/admin"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/config"
)

// hangups returns a channel of SIGHUPs, and what ends it.
func hangups() (<-chan os.Signal, func()) {
	signals := make(chan os.Signal, 1) // further ones are the same request
	signal.Notify(signals, syscall.SIGHUP)
	return signals, func() { signal.Stop(signals) }
}

// reloadAt reads the configuration file again at each SIGHUP until ctx ends.
func (a *cli) reloadAt(ctx context.Context, hangups <-chan os.Signal, running *config.Config, log *logs) {
	for {
		select {
		case <-hangups:
			a.reload(running, log)
		case <-ctx.Done():
			return
		}
	}
}

// reload applies log.level, which is all that a running relay can change. Passwords and certificates need no reload: each
// connect reads them. A file with a mistake changes nothing, but a web config that cannot be used is in use: its server reads it too.
func (a *cli) reload(running *config.Config, log *logs) {
	c, err := a.load()
	if err != nil {
		log.Error("configuration not read again: nothing was changed", "error", err)
		return
	}
	if err := admin.ValidateWebConfig(running.HTTP.WebConfig); err != nil {
		log.Error("http.listen refuses every connection", "error", err)
	}
	was, is := log.level.Level(), levelOf(c.Log)
	log.level.Set(min(was, is)) // so that this is seen
	log.Info("configuration read again: log.level applies, other changes need a restart", "log_level", c.Log.Level)
	log.level.Set(is)
}

// logs is the log of a run, whose level can be changed.
type logs struct {
	*slog.Logger

	level   *slog.LevelVar
	limiter *limiter
}

func newLogs(w io.Writer, c config.Log) *logs {
	level := new(slog.LevelVar)
	level.Set(levelOf(c))
	opts := &slog.HandlerOptions{Level: level, ReplaceAttr: withFix}
	var handler slog.Handler = slog.NewJSONHandler(w, opts)
	if c.Format == "text" {
		handler = slog.NewTextHandler(w, opts)
	}
	limits := limitRepeats(handler)
	return &logs{slog.New(limits), level, limits}
}

func levelOf(c config.Log) (level slog.Level) {
	_ = level.UnmarshalText([]byte(c.Level)) // the schema allows only slog's names
	return level
}

// withFix puts the fix of a logged error beside it.
func withFix(_ []string, a slog.Attr) slog.Attr {
	err, ok := a.Value.Any().(error)
	if !ok || cdc.Fix(err) == "" {
		return a
	}
	return slog.GroupAttrs("", slog.String(a.Key, err.Error()), slog.String("fix", cdc.Fix(err)))
}
