// Package cdctest holds what verifies a relay: writers whose order of commit is known, an independent
// reader, checkers that hold what was published against what was committed, control over the relay's process,
// and a nemesis that breaks everything in between. It knows the relay as its users do: the shipped binary, its
// configuration file, its log, its exit code and its metrics.
//
//	Workload ──► Database ──► cdc-relay ──► Kafka ──► Reader
//	   │             │            ▲                     │
//	 Ledger        Truth       Nemesis               Records
//	   └──────┬──────┘                                  │
//	     Ledger.Check       Check(Truth, Records) ◄─────┘
//
// A [Rig] is one such line, for one test:
//
//	r := cdctest.NewRig(t, cdctest.RigOptions{Binary: path, DB: db, Kafka: kafka, Checkpoint: cdctest.InFile})
//	r.Start()
//	r.Load(cdctest.Workload{})
//	for range 10 {
//		r.Delay(time.Second)
//		r.Must(r.KillRelay().Do(t.Context(), r.Random))
//	}
//	r.Verify() // nothing lost, out of order, made up or altered, and no more repeats than the kills explain
//
// # Another source, another mode
//
// A source implements [Database] and [Session]; nothing else here knows one. The relay's modes are settings
// (RigOptions.Settings), what a consumer of transactions sees is RigOptions.Committed, and a mode that allows
// no repeats is one whose faults are not announced with [Rig.Fault].
//
// # Chance
//
// Everything drawn at random comes from one seed, which every test logs and [EnvSeed] sets. It decides what is
// done and in which order; when it happens depends on the machine too.
package cdctest
