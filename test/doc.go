// Package test holds end-to-end tests of the writer and the built relay against real servers.
package test
