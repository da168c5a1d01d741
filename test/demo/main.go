// Command demo shows the whole path on one machine. It starts servers, prepares a database with cdc-relay setup, writes
// events with package writer, runs the built cdc-relay, kills it twice with SIGKILL, reads all records with another client
// library, and counts. Then it places orders at examples/shop, sends each request twice, and kills its API and its consumer.
//
//	make demo
//	make demo DB=mysql
//	KAFKA=localhost:9092 REDIS=localhost:6379 make demo
//
// It exits with 1 if an event was lost, out of order, or published although it was rolled back, or if
// an order was placed or took effect twice or not at all.
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
	context.AfterFunc(ctx, stop) // a second signal ends the process and its servers
	code := execute(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// options are the flags and environment variables.
type options struct {
	// kind is the kind of database.
	kind string
	// kafka and redis are addresses of real servers; "": in process.
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

// perform runs the demo and returns its exit code.
func perform(ctx context.Context, d *demo, stderr io.Writer) int {
	err := d.run(ctx)
	d.screen.end()
	interrupted := ctx.Err() != nil
	if interrupted {
		err = nil // caused by the signal
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
		return o, fmt.Errorf("unexpected argument %q: -help lists the flags", flags.Arg(0))
	case o.kind != kindPostgres && o.kind != kindMySQL && o.kind != kindMariaDB:
		return o, fmt.Errorf("unknown database %q: use %s", o.kind, kinds)
	case o.duration < shortest:
		return o, fmt.Errorf("-duration %s is too short for two kills: give at least %s", o.duration, shortest)
	}
	o.kafka, o.redis = addresses(*kafka), addresses(*redis)
	return o, nil
}

func addresses(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}
