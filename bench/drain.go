package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// bareDrain reads n rows from a slot with pglogrepl, discards them, and returns the rate in rows per second. It requests
// pgoutput's text format, the default, or binary.
func bareDrain(ctx context.Context, dsn, slot, publication string, n int, binary bool) (float64, error) {
	conn, err := pgconn.Connect(ctx, dsn+"&replication=database")
	if err != nil {
		return 0, err
	}
	defer conn.Close(ctx)
	args := []string{"proto_version '1'", fmt.Sprintf("publication_names '%s'", publication)}
	if binary {
		args = append(args, "binary 'true'")
	}
	err = pglogrepl.StartReplication(ctx, conn, slot, 0, pglogrepl.StartReplicationOptions{PluginArgs: args})
	if err != nil {
		return 0, err
	}
	var first time.Time
	for rows := 0; rows < n; {
		msg, err := conn.ReceiveMessage(ctx)
		if err != nil {
			return 0, err
		}
		data, ok := msg.(*pgproto3.CopyData)
		if !ok || data.Data[0] != pglogrepl.XLogDataByteID {
			continue
		}
		x, err := pglogrepl.ParseXLogData(data.Data[1:])
		if err != nil {
			return 0, err
		}
		if x.WALData[0] == 'I' {
			if rows == 0 {
				first = time.Now()
			}
			rows++
		}
	}
	return float64(n) / time.Since(first).Seconds(), nil
}

// drained is one drain by the relay.
type drained struct {
	Rate        float64 `json:"events_per_second"`
	CPUPerEvent float64 `json:"cpu_us_per_event"`
	PeakRSS     float64 `json:"peak_rss_mb"`
	Ready       float64 `json:"start_to_first_record_ms"`
}

// relayDrain starts the relay and waits until the topic has n more records. The rate is measured from the first record to
// the last, CPU over the whole process.
func (s *stand) relayDrain(ctx context.Context, database, slot string, n int) (drained, error) {
	var d drained
	topic, err := s.topic(ctx)
	if err != nil {
		return d, err
	}
	addr := s.listen()
	path, err := s.configure(database, slot, topic, addr)
	if err != nil {
		return d, err
	}
	return s.timeDrain(ctx, path, addr, slot, n, []string{topic})
}

// timeDrain runs the relay until the topics have n more records.
func (s *stand) timeDrain(ctx context.Context, path, addr, name string, n int, topics []string, more ...string) (drained, error) {
	var d drained
	admin, err := kgo.NewClient(kgo.SeedBrokers(s.kafka.Bootstrap()...))
	if err != nil {
		return d, err
	}
	defer admin.Close()
	before, err := records(ctx, admin, topics)
	if err != nil {
		return d, err
	}
	p, err := s.start(path, more...)
	if err != nil {
		return d, err
	}
	profiled := s.takeProfiles(ctx, addr, name)
	var first time.Time
	err = p.until(ctx, pollInterval(len(topics)), func() (bool, error) {
		have, err := records(ctx, admin, topics)
		if have > before && first.IsZero() {
			first = time.Now()
		}
		return have >= before+int64(n), err
	})
	elapsed := time.Since(first)
	if err != nil {
		return d, err
	}
	cpu, peak, err := p.usage()
	if err != nil {
		return d, err
	}
	if err := <-profiled; err != nil {
		return d, err
	}
	d = drained{
		Rate: float64(n) / elapsed.Seconds(), CPUPerEvent: float64(cpu.Microseconds()) / float64(n),
		PeakRSS: float64(peak) / (1 << 20), Ready: float64(first.Sub(p.started).Milliseconds()),
	}
	return d, p.stop()
}

// pollInterval is long enough that polling does not load Kafka.
func pollInterval(topics int) time.Duration {
	return 10*time.Millisecond + time.Duration(topics)*time.Millisecond/4
}

func records(ctx context.Context, client *kgo.Client, topics []string) (int64, error) {
	ends, err := kadm.NewClient(client).ListCommittedOffsets(ctx, topics...) // with markers of transactions, a few in each partition
	if err != nil {
		return 0, err
	}
	var sum int64
	ends.Each(func(o kadm.ListedOffset) { sum += o.Offset })
	return sum, ends.Error()
}

// drainResult is the result of the drain scenario, with bare reader and relay in turn.
type drainResult struct {
	Rows       int       `json:"rows"`
	PerTx      int       `json:"rows_per_transaction"`
	Bare       []float64 `json:"bare_rows_per_second"`
	BareBinary []float64 `json:"bare_binary_rows_per_second"`
	Relay      []drained `json:"relay"`

	Ratio       float64 `json:"ratio"`        // relay to bare reader: median of the rounds
	RatioBinary float64 `json:"ratio_binary"` // relay to bare reader in binary format
	BareRate    float64 `json:"bare_rate"`    // medians
	RelayRate   float64 `json:"relay_rate"`
	CPU         float64 `json:"cpu_us_per_event"`
	RSS         float64 `json:"peak_rss_mb"` // the highest
}

// drain creates a backlog and drains it in each round, with the bare readers (if bare is set) and with the relay. If bare
// is set, a first drain warms up Kafka and the page cache.
func (s *stand) drain(ctx context.Context, name string, rows, perTx, rounds int, bare bool) (drainResult, error) {
	res := drainResult{Rows: rows, PerTx: perTx}
	slots := []string{name + "_warm"}
	for i := range rounds {
		for _, reader := range []string{"text", "binary", "relay"} {
			slots = append(slots, fmt.Sprintf("%s_%s_%d", name, reader, i))
		}
	}
	conn, err := s.database(ctx, name, slots...)
	if err != nil {
		return res, err
	}
	defer conn.Close(ctx)
	if err := fill(ctx, conn, rows, perTx); err != nil {
		return res, err
	}
	if _, err := conn.Exec(ctx, "CHECKPOINT"); err != nil {
		return res, err
	}
	if bare {
		if _, err := s.relayDrain(ctx, name, slots[0], rows); err != nil {
			return res, err
		}
	}
	for i := range rounds {
		if err := s.round(ctx, &res, name, slots[1+3*i:4+3*i], bare); err != nil {
			return res, err
		}
	}
	res.sum()
	return res, dropSlots(ctx, conn, slots)
}

func (s *stand) round(ctx context.Context, res *drainResult, name string, slots []string, bare bool) error {
	if bare {
		text, err := bareDrain(ctx, s.pg.DSN(name, ""), slots[0], name, res.Rows, false)
		if err != nil {
			return err
		}
		binary, err := bareDrain(ctx, s.pg.DSN(name, ""), slots[1], name, res.Rows, true)
		if err != nil {
			return err
		}
		res.Bare, res.BareBinary = append(res.Bare, text), append(res.BareBinary, binary)
	}
	d, err := s.relayDrain(ctx, name, slots[2], res.Rows)
	res.Relay = append(res.Relay, d)
	return err
}

func (r *drainResult) sum() {
	var rates, cpu, text, binary []float64
	for i, d := range r.Relay {
		rates, cpu = append(rates, d.Rate), append(cpu, d.CPUPerEvent)
		r.RSS = max(r.RSS, d.PeakRSS)
		if i < len(r.Bare) {
			text, binary = append(text, d.Rate/r.Bare[i]), append(binary, d.Rate/r.BareBinary[i])
		}
	}
	r.Ratio, r.RatioBinary = median(text), median(binary)
	r.BareRate, r.RelayRate, r.CPU = median(r.Bare), median(rates), median(cpu)
}

func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}
