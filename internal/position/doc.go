// Package position decides which position counts, where Kafka (K), the checkpoint (C) and the slot (S) hold one. known.go has the decision,
// fence.go who is fenced before K is read, handover.go the start of at-least-once delivery behind exactly-once delivery, and places.go what
// commands show, set and reset. docs/maintainers/positions.md has the rules, and what they are made for.
package position
