package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"
)

// lettersResult compares a drain in which one event in 1,000 becomes a dead letter with one without, on the same rows, and has the
// times of many letters.
type lettersResult struct {
	Ratio     float64 `json:"ratio"` // with letters to without: median of the rounds
	RatioOnce float64 `json:"ratio_exactly_once"`
	Start     float64 `json:"start_to_ready_ms"` // with storedLetters
	Retry     float64 `json:"published_again_per_second"`
}

const (
	oneBad        = 1000
	storedLetters = 100_000
	// badKind and badKey give the bad events keys of their own.
	badKind = "CASE WHEN (t::bigint * 10 + i) % 1000 = 0 THEN 'Bad' ELSE 'Order' END"
	badKey  = "CASE WHEN (t::bigint * 10 + i) % 1000 = 0 THEN 'bad-' || (t::bigint * 10 + i) ELSE " + orderKey + " END"
	// onlyOrders routes the others only.
	onlyOrders = ", match: {aggregate_type: Order}"
)

func (s *stand) deadLetters(ctx context.Context, rows, rounds int) (res *lettersResult, err error) {
	defer func() { s.once, s.more = false, "" }()
	res = new(lettersResult)
	if res.Ratio, err = s.oneInThousand(ctx, "letters", rows, rounds); err != nil {
		return nil, err
	}
	s.once = true
	if res.RatioOnce, err = s.oneInThousand(ctx, "letters_once", rows, rounds); err != nil {
		return nil, err
	}
	s.once = false
	return res, s.manyLetters(ctx, res)
}

// oneInThousand returns the median ratio. The first drains are not counted.
func (s *stand) oneInThousand(ctx context.Context, name string, rows, rounds int) (float64, error) {
	var slots []string
	for i := range rounds + 1 {
		slots = append(slots, fmt.Sprintf("%s_clean_%d", name, i), fmt.Sprintf("%s_bad_%d", name, i))
	}
	conn, err := s.database(ctx, name, slots...)
	if err != nil {
		return 0, err
	}
	defer conn.Close(ctx)
	if err := fillBad(ctx, conn, badKind, badKey, rows); err != nil {
		return 0, err
	}
	var ratios []float64
	for i := range rounds + 1 {
		clean := func() (drained, error) { return s.drainLetters(ctx, name, slots[2*i], "", rows) }
		bad := func() (drained, error) {
			return s.drainLetters(ctx, name, slots[2*i+1], onlyOrders, rows-rows/oneBad)
		}
		ratio, err := ratioOf(i%2 == 1, bad, clean)
		if err != nil {
			return 0, err
		}
		if i > 0 {
			ratios = append(ratios, ratio)
		}
	}
	return median(ratios), dropSlots(ctx, conn, slots)
}

// ratioOf returns the ratio of two rates. Which one comes first alternates: a machine gets slower and faster.
func ratioOf(swap bool, of, to func() (drained, error)) (float64, error) {
	first, second := of, to
	if swap {
		first, second = to, of
	}
	a, err := first()
	if err != nil {
		return 0, err
	}
	b, err := second()
	if swap {
		a, b = b, a
	}
	return a.Rate / b.Rate, err
}

func fillBad(ctx context.Context, conn *pgx.Conn, kind, key string, rows int) error {
	for _, sql := range []string{"SET synchronous_commit = off", backlog(kind, key, rows, 10, payloadSize), "CHECKPOINT"} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

func (s *stand) drainLetters(ctx context.Context, database, slot, match string, n int) (drained, error) {
	topic, err := s.letterTopics(ctx, slot)
	if err != nil {
		return drained{}, err
	}
	addr := s.listen()
	path, err := s.configure(database, slot, topic+match, addr)
	if err != nil {
		return drained{}, err
	}
	return s.timeDrain(ctx, path, addr, slot, n, []string{topic})
}

// letterTopics creates a relay's topics, and returns that of the events.
func (s *stand) letterTopics(ctx context.Context, slot string) (string, error) {
	s.more = fmt.Sprintf("errors: dead_letter\ndead_letter: {topic: %s.dead, max_held_events: 200000}\n", slot)
	compacted := map[string]string{"cleanup.policy": "compact"}
	if err := s.kafka.CreateTopic(ctx, slot+".dead", 8, compacted); err != nil {
		return "", err
	}
	if err := s.kafka.CreateTopic(ctx, slot+".dead.index", 1, compacted); err != nil {
		return "", err
	}
	if s.once {
		if err := s.positions(ctx, slot); err != nil {
			return "", err
		}
	}
	return s.topic(ctx)
}

// manyLetters makes letters of 10,000 keys, starts the relay with them, and publishes all again.
func (s *stand) manyLetters(ctx context.Context, res *lettersResult) error {
	const name = "letters_many"
	conn, err := s.database(ctx, name, name)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	if err := fillBad(ctx, conn, "'Bad'", "'bad-' || (t::bigint * 10 + i) % 10000", storedLetters); err != nil {
		return err
	}
	topic, err := s.letterTopics(ctx, name)
	if err != nil {
		return err
	}
	addr := s.listen()
	path, err := s.configure(name, name, topic+onlyOrders, addr)
	if err != nil {
		return err
	}
	p, err := s.start(path)
	if err != nil {
		return err
	}
	if err := p.until(ctx, 100*time.Millisecond, func() (bool, error) { return hasLetters(ctx, addr, storedLetters), nil }); err != nil {
		return err
	}
	if err := p.stop(); err != nil {
		return err
	}
	if path, err = s.configure(name, name, topic, addr); err != nil {
		return err
	}
	if p, err = s.start(path); err != nil {
		return err
	}
	if err := p.until(ctx, 2*time.Millisecond, func() (bool, error) { return ready(ctx, addr), nil }); err != nil {
		return err
	}
	res.Start = float64(time.Since(p.started).Microseconds()) / 1e3
	if res.Retry, err = s.retryAll(ctx, path, topic); err != nil {
		return err
	}
	return p.stop()
}

// retryAll returns how many letters are published in a second, with the command's own start.
func (s *stand) retryAll(ctx context.Context, path, topic string) (float64, error) {
	began := time.Now()
	out, err := exec.CommandContext(ctx, s.bin, "dlq", "retry", "--all", "--yes", "--config", path).CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("%w: %s", err, out)
	}
	rate := storedLetters / time.Since(began).Seconds()
	client, err := kgo.NewClient(kgo.SeedBrokers(s.kafka.Bootstrap()...))
	if err != nil {
		return 0, err
	}
	defer client.Close()
	have, err := records(ctx, client, []string{topic})
	if err == nil && have != storedLetters {
		err = fmt.Errorf("%d letters were published again, not %d", have, storedLetters)
	}
	return rate, err
}

func hasLetters(ctx context.Context, addr string, n int) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/metrics", nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return err == nil && (strings.Contains(string(text), fmt.Sprintf("\ncdc_relay_dead_letters %d\n", n)) ||
		strings.Contains(string(text), fmt.Sprintf("\ncdc_relay_dead_letters %g\n", float64(n))))
}
