// Package test holds the end-to-end tests: the writer and the built relay, seen from outside, against
// real servers.
package test
