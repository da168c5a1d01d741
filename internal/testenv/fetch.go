package testenv

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Fetch gets a server without starting it and returns its directory: "postgres" (any version, preferably an installed
// one), "postgres-14" to "postgres-19", "mysql", "mariadb", "mariadb-11.4", "mariadb-11.8", "kafka", "redis", "pgbouncer",
// "pgbouncer-unstable", a tool of Tool, or the libraries of a [Language]. Downloads are reported to progress.
func Fetch(ctx context.Context, what string, progress io.Writer) (string, error) {
	store, err := newStore(progress)
	if err != nil {
		return "", err
	}
	switch {
	case what == "kafka":
		prog, err := store.kafkaProgram(ctx)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("Kafka %s: %s", kafkaVersion, prog.libs), nil
	case what == "redis":
		prog, err := store.redisProgram(ctx)
		if err != nil {
			return "", err
		}
		return "Redis: " + prog.bin, nil
	case what == "pgbouncer", what == "pgbouncer-unstable":
		prog, err := store.pgbouncerProgram(ctx, what != "pgbouncer")
		if err != nil {
			return "", err
		}
		return "PgBouncer: " + prog.bin, nil
	case slices.Contains(toolNames(), what):
		prog, err := store.toolProgram(ctx, what)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("%s: %s", what, prog.bin), nil
	case what == MySQLFlavor, what == MariaDBFlavor, what == MariaDBFlavor+"-"+MariaDB114, what == MariaDBFlavor+"-"+MariaDB118:
		flavor, release, _ := strings.Cut(what, "-")
		prog, err := store.mysqlProgram(ctx, flavor, release)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("%s %s: %s", flavorName(flavor), prog.release, prog.bin), nil
	case what == "postgres":
		prog, major, err := store.anyPostgres(ctx)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("PostgreSQL %d: %s", major, prog.bin), nil
	case slices.Contains(Languages(), Language(what)):
		dir, err := store.language(ctx, Language(what))
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("libraries for %s: %s", what, dir), nil
	case strings.HasPrefix(what, "postgres-"):
		return store.fetchPostgres(ctx, strings.TrimPrefix(what, "postgres-"))
	}
	return "", fmt.Errorf("unknown server %q: ask for postgres, postgres-14 to postgres-19, mysql, mariadb, mariadb-11.4, mariadb-11.8, kafka, redis, pgbouncer, pgbouncer-unstable, python, java, node, %s", what, strings.Join(toolNames(), ", "))
}

func (s *store) fetchPostgres(ctx context.Context, version string) (string, error) {
	major, err := strconv.Atoi(version)
	if err != nil {
		return "", fmt.Errorf("PostgreSQL version %q: want a major version such as 17", version)
	}
	prog, err := s.postgresProgram(ctx, major)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("PostgreSQL %d: %s", major, prog.bin), nil
}
