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
	find := s.mysql
	switch {
	case flavor == MySQLFlavor && release == "":
	case flavor == MariaDBFlavor && release == "":
		find = s.mariadb
	case flavor == MariaDBFlavor && release == MariaDB11:
		find = s.mariadb11
	default:
		return nil, fmt.Errorf("unknown server %q %q: want %s, %s, or %[4]s %[5]s", flavor, release, MySQLFlavor, MariaDBFlavor, MariaDB11)
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
	if !ignoreInstalled() {
		for _, major := range []int{9, 8} {
			if found := beside(ctx, "mysqld", major, "/usr/sbin", "/opt/homebrew/opt/mysql*/bin", "/usr/local/opt/mysql*/bin"); found != nil {
				return found, nil
			}
		}
	}
	if onMac() {
		return nil, errors.New("MySQL is missing: run `brew install mysql`")
	}
	found, err := s.unstableProgram(ctx, "mysql-server-core", "usr/sbin", "mysqld")
	if err != nil {
		return nil, fmt.Errorf("MySQL is missing and could not be fetched from Debian's unstable packages: install MySQL 8.4 or 9: %w", err)
	}
	return found, nil
}

func (s *store) mariadb(ctx context.Context) (*program, error) {
	if !ignoreInstalled() {
		for _, major := range []int{10, 11, 12} {
			if found := beside(ctx, "mariadbd", major, "/usr/sbin", "/opt/homebrew/opt/mariadb*/bin", "/usr/local/opt/mariadb*/bin"); found != nil {
				return found, nil
			}
		}
	}
	if onMac() {
		return nil, errors.New("MariaDB is missing: run `brew install mariadb`")
	}
	found, err := s.debianProgram(ctx, "mariadb-server-core", "usr/sbin", "mariadbd")
	if err != nil {
		return nil, fmt.Errorf("MariaDB is missing and could not be fetched: install mariadb-server (on Debian `sudo apt-get install mariadb-server`): %w", err)
	}
	return found, nil
}

// unstableProgram fetches a program from Debian unstable with all its libraries, the C library included, and starts it
// through their loader, so that no library of this system is used. It is in the directory that matches bin.
func (s *store) unstableProgram(ctx context.Context, pkg, bin, name string) (*program, error) {
	dir, err := s.entry(ctx, pkg+"-unstable", func(dir string) error {
		apt, err := s.aptUnstable(ctx)
		if err != nil {
			return err
		}
		return s.unpackFrom(ctx, apt, dir, pkg)
	})
	if err != nil {
		return nil, err
	}
	loaders, err := filepath.Glob(filepath.Join(dir, "usr", "lib", "*-linux-gnu*", "ld-linux*.so.*"))
	if err != nil {
		return nil, err
	}
	if len(loaders) == 0 {
		return nil, fmt.Errorf("no loader among the libraries of package %s", pkg)
	}
	bins, err := filepath.Glob(filepath.Join(dir, bin))
	if err != nil {
		return nil, err
	}
	if len(bins) == 0 {
		return nil, fmt.Errorf("no directory %s in package %s", bin, pkg)
	}
	prog := &program{bin: bins[0], loader: []string{loaders[0], "--library-path", filepath.Dir(loaders[0])}}
	if prog.major(ctx, name) == 0 {
		return nil, fmt.Errorf("%s from package %s does not run on this system", name, pkg)
	}
	return prog, nil
}

// aptUnstable runs apt-get on the unstable suite of this machine's mirror. It ignores installed packages, so that it lists
// everything that a server needs.
func (s *store) aptUnstable(ctx context.Context) (*aptClient, error) {
	mirror, err := s.debianMirror(ctx)
	if err != nil {
		return nil, err
	}
	apt, err := s.aptIn("apt-unstable")
	if err != nil {
		return nil, err
	}
	signed := ""
	const keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"
	if _, err := os.Stat(keyring); err == nil {
		signed = "[signed-by=" + keyring + "] "
	}
	sources := filepath.Join(apt.dir, "sources.list")
	if err := os.WriteFile(sources, []byte("deb "+signed+mirror+" sid main\n"), 0o644); err != nil {
		return nil, err
	}
	apt.options = append(apt.options, "-o", "Dir::Etc::sourcelist="+sources, "-o", "Dir::Etc::sourceparts=/dev/null",
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
