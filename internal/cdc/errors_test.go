package cdc_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

func TestLastCause(t *testing.T) {
	for err, want := range map[error]string{
		fmt.Errorf("connect: %w", errors.Join(errors.New("refused"), context.DeadlineExceeded)): "refused",
		fmt.Errorf("connect: %w", &net.OpError{Op: "dial", Err: context.DeadlineExceeded}):      "no answer in time",
		fmt.Errorf("read: %w", &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}):           "no answer in time",
	} {
		if have := cdc.LastCause(err); have != want {
			t.Errorf("have %s\nwant %s", have, want)
		}
	}
}

func TestExplain(t *testing.T) {
	lost := cdc.Stop(cdc.ClassPosition, "slot_lost", errors.New("slot \"s\" is lost: wal_removed"), "run `cdc-relay setup`")
	refused := &cdc.FixableError{Cause: errors.New("connection refused"), Fix: "is it listening?"}
	for want, err := range map[string]error{
		"plain": errors.New("plain"),
		"slot \"s\" is lost: wal_removed. Fix: run `cdc-relay setup`.":                         lost,
		"start: slot \"s\" is lost: wal_removed. Fix: run `cdc-relay setup`.":                  fmt.Errorf("start: %w", lost),
		"connection refused. Fix: is it listening?":                                            cdc.Stop(cdc.ClassConfig, "r", refused, ""),
		"connection refused. Fix: start it.":                                                   cdc.Stop(cdc.ClassConfig, "r", refused, "start it"),
		"plain\nconnection refused. Fix: is it listening?":                                     errors.Join(errors.New("plain"), refused),
		"slot \"s\" is lost: wal_removed, and connection refused. Fix: run `cdc-relay setup`.": fmt.Errorf("%w, and %w", lost, refused),
	} {
		if have := cdc.Explain(err); have != want {
			t.Errorf("have %s\nwant %s", have, want)
		}
	}
}
