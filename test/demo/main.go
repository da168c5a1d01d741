// Command demo shows the whole path on one machine: it starts servers, sets a database up with cdc-relay
// setup, writes events through package writer, runs the built cdc-relay and kills it with SIGKILL twice,
// reads everything back with a client that shares no code with it, and counts.
//
//	make demo
//	make demo DB=mysql
//	KAFKA=localhost:9092 REDIS=localhost:6379 make demo
//
// It exits with 1 if an event was lost, out of order, or published although it was rolled back.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// Exit codes.
const (
	exitKept        = 0
	exitBroken      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop) // a second signal ends the process; the servers end with it
	code := execute(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// options are what the command line and the environment say.
type options struct {
	// kind is the kind of database.
	kind string
	// kafka and redis are addresses of real servers; none: in process.
	kafka, redis []string
	duration     time.Duration
	dir          string
}

func execute(ctx context.Context, args []string, env func(string) string, stdout, stderr io.Writer) int {
	o, err := parse(args, env, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return exitKept
	}
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "demo:", err)
		return exitUsage
	}
	return perform(ctx, &demo{options: o, screen: newScreen(stdout)}, stderr)
}

// perform runs the demo and says how it ended.
func perform(ctx context.Context, d *demo, stderr io.Writer) int {
	err := d.run(ctx)
	d.screen.end()
	interrupted := ctx.Err() != nil
	if interrupted {
		err = nil // whatever it was, it was that
		_, _ = fmt.Fprintln(stderr, "demo: interrupted: stopping what was started")
	}
	if err = errors.Join(err, d.close(ctx)); err != nil {
		_, _ = fmt.Fprintf(stderr, "demo: %v\ndemo: the logs are in %s\n", err, d.dir)
	}
	switch {
	case interrupted:
		return exitInterrupted
	case err != nil:
		return exitBroken
	default:
		return exitKept
	}
}

// shortest leaves time for two kills.
const shortest = 2 * time.Second

func parse(args []string, env func(string) string, stderr io.Writer) (o options, err error) {
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.SetOutput(stderr)
	kafka := flags.String("kafka", env("KAFKA"), "real Kafka, `host:port,...`, without TLS; also KAFKA (default in process)")
	redis := flags.String("redis", env("REDIS"), "real Redis, `host:port`; also REDIS (default in process)")
	flags.StringVar(&o.kind, "db", env("DB"), "`kind` of database: "+kinds+"; also DB (default postgres)")
	flags.DurationVar(&o.duration, "duration", 20*time.Second, "how long events are written")
	flags.StringVar(&o.dir, "dir", "", "`folder` for configuration and logs (default a new one)")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.kind == "" {
		o.kind = kindPostgres
	}
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q: there are only flags, -help lists them", flags.Arg(0))
	case o.kind != kindPostgres && o.kind != kindMySQL && o.kind != kindMariaDB:
		return o, fmt.Errorf("there is no demo of the database %q: there is one of %s", o.kind, kinds)
	case o.duration < shortest:
		return o, fmt.Errorf("-duration %s is too short for two kills: give at least %s", o.duration, shortest)
	}
	o.kafka, o.redis = addresses(*kafka), addresses(*redis)
	return o, nil
}

func addresses(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}
