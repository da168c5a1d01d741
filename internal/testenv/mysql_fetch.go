package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// The flavors of MySQL, by the names that the relay uses.
const (
	MySQLFlavor   = "mysql"
	MariaDBFlavor = "mariadb"
)

// Releases of MariaDB beside the flavor's default, 10.11.
const (
	MariaDB114 = "11.4"
	MariaDB118 = "11.8"
)

func flavorName(flavor string) string {
	if flavor == MariaDBFlavor {
		return "MariaDB"
	}
	return "MySQL"
}

// mysqlProgram is the server of one flavor.
type mysqlProgram struct {
	*program
	flavor  string
	release string // such as "9.7.4"
}

// daemon returns the name of the server's binary.
func (p *mysqlProgram) daemon() string {
	if p.flavor == MariaDBFlavor {
		return "mariadbd"
	}
	return "mysqld"
}

// base returns the directory above the binaries; share the directory of messages and scripts, "" if not below base.
func (p *mysqlProgram) base() string { return filepath.Dir(p.bin) }

func (p *mysqlProgram) share() string {
	for _, name := range []string{"mysql", "mariadb", "."} {
		dir := filepath.Join(p.base(), "share", name)
		if _, err := os.Stat(filepath.Join(dir, "english")); err == nil {
			return dir
		}
	}
	return ""
}

// mysqlProgram gets a server from this machine, from Debian's packages or from Maven Central.
func (s *store) mysqlProgram(ctx context.Context, flavor, release string) (*mysqlProgram, error) {
	find := map[[2]string]func(context.Context) (*program, error){
		{MySQLFlavor, ""}: s.mysql, {MariaDBFlavor, ""}: s.mariadb,
		{MariaDBFlavor, MariaDB114}: s.mariadb114, {MariaDBFlavor, MariaDB118}: s.mariadb118,
	}[[2]string{flavor, release}]
	if find == nil {
		return nil, fmt.Errorf("unknown server %q %q: want %s, or %s, of which there are also the releases %s and %s",
			flavor, release, MySQLFlavor, MariaDBFlavor, MariaDB114, MariaDB118)
	}
	found, err := find(ctx)
	if err != nil {
		return nil, err
	}
	prog := &mysqlProgram{program: found, flavor: flavor}
	prog.release = regexp.MustCompile(`\d+\.\d+\.\d+`).FindString(prog.version(ctx, prog.daemon()))
	return prog, nil
}

// mysql gets version 9, or an installed version 8.
func (s *store) mysql(ctx context.Context) (*program, error) {
	for _, major := range []int{9, 8} {
		if found := beside(ctx, "mysqld", major, "/usr/sbin"); found != nil {
			return found, nil
		}
	}
	found, err := s.unstableProgram(ctx, "mysql-server-core", "usr/sbin", "mysqld")
	if err != nil {
		return nil, fmt.Errorf("MySQL is missing and could not be fetched from Debian's unstable packages: install MySQL 8.4 or 9: %w", err)
	}
	return found, nil
}

func (s *store) mariadb(ctx context.Context) (*program, error) {
	for _, major := range []int{10, 11, 12} {
		if found := beside(ctx, "mariadbd", major, "/usr/sbin"); found != nil {
			return found, nil
		}
	}
	found, err := s.debianProgram(ctx, "mariadb-server-core", "usr/sbin", "mariadbd")
	if err != nil {
		return nil, fmt.Errorf("MariaDB is missing and could not be fetched: install mariadb-server (on Debian `sudo apt-get install mariadb-server`): %w", err)
	}
	return found, nil
}

// mariadb118 gets MariaDB 11.8 from Debian's unstable packages.
func (s *store) mariadb118(ctx context.Context) (*program, error) {
	found, err := s.unstableProgram(ctx, "mariadb-server-core", "usr/sbin", "mariadbd")
	if err != nil {
		return nil, fmt.Errorf("MariaDB 11.8 could not be fetched from Debian's unstable packages: %w", err)
	}
	return found, nil
}

// unstableProgram fetches a program from Debian unstable with all its libraries, the C library included, and starts it
// through their loader, so that no library of this system is used. It is in the directory that matches bin.
func (s *store) unstableProgram(ctx context.Context, pkg, bin, name string) (*program, error) {
	dir, err := s.entry(ctx, pkg+"-unstable", func(dir string) error { return s.unpackUnstable(ctx, dir, pkg) })
	if err != nil {
		return nil, err
	}
	loader, err := loaderIn(dir)
	if err != nil {
		return nil, err
	}
	bins, err := filepath.Glob(filepath.Join(dir, bin))
	if err != nil {
		return nil, err
	}
	if len(bins) == 0 {
		return nil, fmt.Errorf("no directory %s in package %s", bin, pkg)
	}
	prog := &program{bin: bins[0], loader: []string{loader, "--library-path", filepath.Dir(loader)}}
	if prog.major(ctx, name) == 0 {
		return nil, fmt.Errorf("%s from package %s does not run on this system", name, pkg)
	}
	return prog, nil
}

func (s *store) unpackUnstable(ctx context.Context, dir string, packages ...string) error {
	apt, err := s.aptUnstable(ctx)
	if err != nil {
		return err
	}
	return s.unpackFrom(ctx, apt, dir, packages...)
}

// loaderIn returns the dynamic loader of unpacked packages; their libraries are beside it.
func loaderIn(dir string) (string, error) {
	loaders, err := filepath.Glob(filepath.Join(dir, "usr", "lib", "*-linux-gnu*", "ld-linux*.so.*"))
	if err != nil {
		return "", err
	}
	if len(loaders) == 0 {
		return "", errors.New("no loader among the libraries of the packages")
	}
	return loaders[0], nil
}

// aptUnstable runs apt-get on the suites unstable and, for what is in no other, experimental of this machine's mirror. It ignores installed packages, so that it lists
// everything that a server needs.
func (s *store) aptUnstable(ctx context.Context) (*aptClient, error) {
	mirror, err := s.debianMirror(ctx)
	if err != nil {
		return nil, err
	}
	apt, err := s.aptIn("apt-experimental")
	if err != nil {
		return nil, err
	}
	signed := ""
	const keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"
	if _, err := os.Stat(keyring); err == nil {
		signed = "[signed-by=" + keyring + "] "
	}
	sources := filepath.Join(apt.dir, "sources.list")
	var list strings.Builder
	for _, suite := range []string{"sid", "experimental"} {
		fmt.Fprintf(&list, "deb %s%s %s main\n", signed, mirror, suite)
	}
	if err := os.WriteFile(sources, []byte(list.String()), 0o644); err != nil {
		return nil, err
	}
	// PostgreSQL comes from where it is newest, with its client library. Nothing else is taken from experimental.
	preferences := filepath.Join(apt.dir, "preferences")
	pin := fmt.Sprintf("Package: src:postgresql-%d\nPin: release a=experimental\nPin-Priority: 500\n", nextPostgres)
	if err := os.WriteFile(preferences, []byte(pin), 0o644); err != nil {
		return nil, err
	}
	apt.options = append(apt.options, "-o", "Dir::Etc::preferences="+preferences, "-o", "Dir::Etc::sourcelist="+sources, "-o", "Dir::Etc::sourceparts=/dev/null",
		"-o", "Dir::State::status=/dev/null", "-o", "Acquire::Languages=none")
	return apt, nil
}

// debianMirror returns this machine's Debian mirror.
func (s *store) debianMirror(ctx context.Context) (string, error) {
	apt, err := s.apt()
	if err != nil {
		return "", err
	}
	unlock, err := lockFile(ctx, filepath.Join(s.dir, "apt.lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	if err := apt.update(ctx); err != nil {
		return "", err
	}
	targets, err := run(ctx, "", apt.command("indextargets", "--format", "$(LABEL) $(REPO_URI)", "Created-By: Packages")...)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(targets) {
		if label, mirror, _ := strings.Cut(strings.TrimSpace(line), " "); label == "Debian" {
			return mirror, nil
		}
	}
	return "", errors.New("apt-get knows no mirror of Debian")
}
