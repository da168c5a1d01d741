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
	var prog *program
	name := what
	switch {
	case what == "kafka":
		kafka, err := store.kafkaProgram(ctx)
		if err != nil {
			return "", err
		}
		name, prog = "Kafka "+kafkaVersion, &program{bin: kafka.libs}
	case what == "redis":
		name = "Redis"
		prog, err = store.redisProgram(ctx)
	case what == "pgbouncer", what == "pgbouncer-unstable":
		name = "PgBouncer"
		prog, err = store.pgbouncerProgram(ctx, what != "pgbouncer")
	case slices.Contains(toolNames(), what):
		prog, err = store.toolProgram(ctx, what)
	case what == MySQLFlavor, what == MariaDBFlavor, what == MariaDBFlavor+"-"+MariaDB114, what == MariaDBFlavor+"-"+MariaDB118:
		flavor, release, _ := strings.Cut(what, "-")
		server, err := store.mysqlProgram(ctx, flavor, release)
		if err != nil {
			return "", err
		}
		name, prog = flavorName(flavor)+" "+server.release, server.program
	case what == "postgres":
		var major int
		prog, major, err = store.anyPostgres(ctx)
		name = fmt.Sprintf("PostgreSQL %d", major)
	case slices.Contains(Languages(), Language(what)):
		dir, err := store.language(ctx, Language(what))
		return fmt.Sprintf("libraries for %s: %s", what, dir), err
	case strings.HasPrefix(what, "postgres-"):
		version := strings.TrimPrefix(what, "postgres-")
		name = "PostgreSQL " + version
		prog, err = store.postgresVersion(ctx, version)
	default:
		return "", fmt.Errorf("unknown server %q: ask for postgres, postgres-14 to postgres-19, mysql, mariadb, mariadb-11.4, mariadb-11.8, kafka, redis, pgbouncer, pgbouncer-unstable, python, java, node, %s", what, strings.Join(toolNames(), ", "))
	}
	if err != nil {
		return "", err
	}
	return name + ": " + prog.bin, nil
}

func (s *store) postgresVersion(ctx context.Context, version string) (*program, error) {
	major, err := strconv.Atoi(version)
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL version %q: want a major version such as 17", version)
	}
	return s.postgresProgram(ctx, major)
}
