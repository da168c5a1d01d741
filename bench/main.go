package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

type options struct {
	rows, rounds int
	only         string
	bin, out     string
	profile      string
	against      string
	chosen       usualChoice
}

// report is written as JSON.
type report struct {
	At      time.Time      `json:"at"`
	Machine string         `json:"machine"`
	Drain   *drainResult   `json:"drain,omitempty"`
	Tenfold *drainResult   `json:"drain_tenfold,omitempty"`
	Large   *drainResult   `json:"one_transaction,omitempty"`
	Topics  *topicsResult  `json:"many_topics,omitempty"`
	Once    *onceResult    `json:"exactly_once,omitempty"`
	Letters *lettersResult `json:"dead_letters,omitempty"`
	Maps    *mapsResult    `json:"maps,omitempty"`
	// Marks has the results by database.
	Marks map[string]*marksResult `json:"marks,omitempty"`
	// Retention has the results by database.
	Retention map[string]*retentionResult `json:"retention,omitempty"`
	Usual     []usualRound                `json:"usual,omitempty"`
	Replay    map[string]*replayResult    `json:"replay,omitempty"`
	Start     *startResult                `json:"start,omitempty"`
	Peers     map[string]*peersResult     `json:"peers,omitempty"`
	// Binlogs has the results by flavor.
	Binlogs map[string]*binlogResult `json:"binlogs,omitempty"`
}

// binlogResult is the result for MySQL or MariaDB.
type binlogResult struct {
	Drain *drainResult `json:"drain"`
	Large *drainResult `json:"one_transaction"`
}

// unlessNamed are the scenarios that run without -only.
const unlessNamed = "drain,large,topics,once,letters,maps,marks,retention,usual,start,tenfold,mysql,mariadb,replay"

func main() {
	var o options
	flag.IntVar(&o.rows, "rows", 600_000, "rows of the backlog")
	flag.IntVar(&o.rounds, "rounds", 3, "rounds of each comparison")
	flag.StringVar(&o.only, "only", unlessNamed, "scenarios, comma-separated; peers is another")
	flag.StringVar(&o.bin, "bin", "bin/cdc-relay", "the relay to measure")
	flag.StringVar(&o.out, "out", "bench/out", "directory for results, logs and configurations")
	flag.StringVar(&o.profile, "profile", "", "directory for CPU and heap profiles of the relay while it drains")
	flag.StringVar(&o.against, "against", "", "a commit: the usual load goes through its build too")
	flag.Func("usual", "what the usual load is measured with, comma-separated: databases, deliveries, rates, relays (this, bare)", o.chosen.add)
	bare := flag.String("bare", "", "be a bare pipeline: see bare.go")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var err error
	if *bare != "" {
		err = runBare(ctx, *bare)
	} else {
		err = run(ctx, o)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (err error) {
	s, err := newStand(ctx, o.bin, o.out)
	if err != nil {
		return err
	}
	s.profile = o.profile
	defer func() {
		if cerr := s.close(); err == nil {
			err = cerr
		}
	}()
	r := report{At: time.Now().UTC(), Machine: fmt.Sprintf("%d cores, %s/%s, %s", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version())}
	if err := s.scenarios(ctx, o, &r); err != nil {
		return err
	}
	r.print(os.Stdout)
	doc, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	path := filepath.Join(o.out, "bench.json")
	fmt.Println("written to", path)
	return os.WriteFile(path, append(doc, '\n'), 0o600)
}

func (s *stand) scenarios(ctx context.Context, o options, r *report) error {
	wanted := map[string]bool{}
	for name := range strings.SplitSeq(o.only, ",") {
		if !slices.Contains(strings.Split(unlessNamed+",peers", ","), name) {
			return fmt.Errorf("-only %s: there is no such scenario", name)
		}
		wanted[name] = true
	}
	step := func(name, what string, f func() error) error {
		if !wanted[name] {
			return nil
		}
		fmt.Fprintf(os.Stderr, "%-8s %s\n", name, what)
		if err := f(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	}
	for _, err := range []error{
		step("drain", "backlog against a bare reader", func() error {
			res, err := s.drain(ctx, "drain", o.rows, 10, o.rounds, true)
			r.Drain = &res
			return err
		}),
		step("large", "one transaction of 1,000,000 rows", func() error {
			res, err := s.drain(ctx, "large", 1_000_000, 1_000_000, 1, false)
			r.Large = &res
			return err
		}),
		step("topics", "many topics against one", into(&r.Topics, func() (*topicsResult, error) { return s.manyTopics(ctx, o.rows, o.rounds) })),
		step("once", "exactly-once delivery against at-least-once", into(&r.Once, func() (*onceResult, error) { return s.exactlyOnce(ctx, o.rows, o.rounds) })),
		step("letters", "dead letters", into(&r.Letters, func() (*lettersResult, error) { return s.deadLetters(ctx, o.rows, o.rounds) })),
		step("maps", "tables and routes that cost more", into(&r.Maps, func() (*mapsResult, error) { return s.mapped(ctx, o.rows, o.rounds) })),
		step("marks", "published rows marked beside a poller", into(&r.Marks, func() (map[string]*marksResult, error) { return s.marked(ctx) })),
		step("retention", "INSERTs while partitions are maintained", into(&r.Retention, func() (map[string]*retentionResult, error) { return s.retentions(ctx) })),
		step("usual", "one event a transaction at steady rates", into(&r.Usual, func() ([]usualRound, error) { return s.usual(ctx, o) })),
		step("start", "start to ready", into(&r.Start, func() (*startResult, error) { return s.startTimes(ctx) })),
		step("tenfold", "ten times the backlog", func() error {
			res, err := s.drain(ctx, "tenfold", 10*o.rows, 10, 1, false)
			r.Tenfold = &res
			return err
		}),
		step("mysql", "the binlog of MySQL", func() error { return s.binlog(ctx, o, r, "mysql") }),
		step("mariadb", "the binlog of MariaDB", func() error { return s.binlog(ctx, o, r, "mariadb") }),
		step("peers", "Debezium Server on the same rows", into(&r.Peers, func() (map[string]*peersResult, error) { return s.compare(ctx, o.rows, o.rounds) })),
		step("replay", "replay next to a live stream, and repair", into(&r.Replay, func() (map[string]*replayResult, error) { return s.replays(ctx, o.rows) })),
	} {
		if err != nil {
			return err
		}
	}
	return nil
}

// into is a step whose result is kept.
func into[T any](result *T, f func() (T, error)) func() error {
	return func() (err error) {
		*result, err = f()
		return err
	}
}

func (s *stand) binlog(ctx context.Context, o options, r *report, flavor string) error {
	drain, err := s.mysqlDrain(ctx, flavor, "drain", o.rows, 10, o.rounds, true)
	if err != nil {
		return err
	}
	large, err := s.mysqlDrain(ctx, flavor, "large", 1_000_000, 1_000_000, 1, false)
	if err != nil {
		return err
	}
	if r.Binlogs == nil {
		r.Binlogs = map[string]*binlogResult{}
	}
	r.Binlogs[flavor] = &binlogResult{&drain, &large}
	return nil
}

// listen returns a free address for a relay's endpoint.
func (s *stand) listen() string {
	var lc net.ListenConfig
	l, err := lc.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return "127.0.0.1:0"
	}
	defer l.Close()
	return l.Addr().String()
}
