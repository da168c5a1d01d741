// Command fetch gets the servers that tests and the demo start, and prints one line for each.
//
//	go run ./internal/testenv/fetch all
//	go run ./internal/testenv/fetch postgres kafka redis
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"

	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := fetch(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func fetch(ctx context.Context, wanted []string) error {
	if len(wanted) == 0 || wanted[0] == "all" {
		wanted = []string{
			"postgres-15", "postgres-14", "postgres-16", "postgres-17", "postgres-18", "postgres-19", "mysql", "mariadb", "mariadb-11.4", "mariadb-11.8", "kafka", "redis",
			"pgbouncer", "pgbouncer-unstable", "helm", "python", "java", "node", "buildah", "crun", "systemd-analyze", "promtool", "chromium",
		}
	}
	var errs []error // all of them, so that everything missing can be installed at once
	for _, what := range wanted {
		line, err := testenv.Fetch(ctx, what, os.Stdout)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		fmt.Println(line)
	}
	return errors.Join(errs...)
}
