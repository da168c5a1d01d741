// Package position decides which position counts, where Kafka (K), the checkpoint (C) and the slot (S) hold one, and who is fenced before
// it is read. docs/maintainers/positions.md has the rules, and what they are made for.
package position
