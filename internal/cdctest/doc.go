// Package cdctest verifies a relay. It has writers whose commit order is known, an independent reader, checkers that
// compare what was published with what was committed, control of the relay's process, and a nemesis that injects faults.
// It uses the relay as users do: the shipped binary, its configuration file, log, exit code and metrics.
//
//	Workload ──► Database ──► cdc-relay ──► Kafka ──► Reader
//	   │             │            ▲                     │
//	 Ledger        Truth       Nemesis               Records
//	   └──────┬──────┘                                  │
//	     Ledger.Check       Check(Truth, Records) ◄─────┘
//
// A [Rig] connects these for one test:
//
//	r := cdctest.NewRig(t, cdctest.RigOptions{Binary: path, DB: db, Kafka: kafka, Checkpoint: cdctest.InFile})
//	r.Start()
//	r.Load(cdctest.Workload{})
//	for range 10 {
//		r.Delay(time.Second)
//		r.Must(r.KillRelay().Do(t.Context(), r.Random))
//	}
//	r.Verify() // no event lost, out of order, uncommitted or changed, and no more repeats than the kills explain
//
// # Other sources and modes
//
// A source implements [Database] and [Session]; the rest is the same for all sources. RigOptions.Settings selects the
// relay's settings, and RigOptions.Delivery its mode: with [ExactlyOnce] no fault explains a repeat.
//
// # Randomness
//
// All random choices come from one seed, which every test logs and [EnvSeed] sets. The seed decides what is done and in
// which order; the timing depends on the machine too.
package cdctest
