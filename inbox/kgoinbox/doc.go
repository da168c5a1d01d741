// Package kgoinbox is a consumer for package inbox on franz-go. It handles each message once, those of a key in order and
// keys in parallel, tries again what fails, and parks what cannot be handled:
//
//	c, err := kgoinbox.New(in, &handlers, kgoinbox.Config{Client: []kgo.Opt{
//		kgo.SeedBrokers("localhost:9092"), kgo.ConsumerGroup("revenue"), kgo.ConsumeTopics("orders"),
//	}})
//	...
//	err = c.Run(ctx) // until ctx ends
//
// If the system stops a process in a transaction, this message and the later ones of its key wait until the process runs
// again or the database ends its session: set idle_in_transaction_session_timeout or wait_timeout. Each such message keeps a
// worker of the next owner, so with as many as Config.Workers all other messages wait, too.
//
// Offsets are committed after the database's commit. A message that is delivered again is a repeat in the inbox.
package kgoinbox
