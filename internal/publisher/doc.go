// Package publisher publishes messages to Kafka.
package publisher
