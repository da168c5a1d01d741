package testenv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Language has the libraries of another language for the tests of clients and migrations.
type Language string

// The languages.
const (
	Python Language = "python" // Alembic, Django, SQLAlchemy and drivers
	Java   Language = "java"   // Flyway, Liquibase, Spring, drivers, and a compiler, since runtimes have none
	Node   Language = "node"   // drivers, and the compiler of TypeScript
)

// Languages returns all languages.
func Languages() []Language { return []Language{Python, Java, Node} }

// libraries are pinned. Liquibase 5 has another licence than open source.
func (l Language) libraries() []string {
	switch l {
	case Python:
		return []string{"alembic==1.20.1", "Django==5.2.19", "SQLAlchemy[asyncio]==2.1.9", "psycopg[binary]==3.3.9", "PyMySQL==1.2.4"}
	case Java:
		return []string{
			"org.eclipse.jdt:ecj:3.40.0", "org.flywaydb:flyway-database-postgresql:13.12.1", "org.flywaydb:flyway-mysql:13.12.1", "org.liquibase:liquibase-core:4.33.0",
			"org.springframework:spring-jdbc:7.0.10", "org.postgresql:postgresql:42.7.14", "com.mysql:mysql-connector-j:9.7.0", "org.slf4j:slf4j-nop:1.7.36",
		}
	case Node:
		return []string{"pg@8.23.1", "mysql2@3.24.6", "typescript@5.9.3", "@types/pg@8.23.1", "@types/node@26.6.6"}
	default:
		return nil
	}
}

// Libraries returns the directory of a language's libraries: for Python a virtual environment, for Java jars, for Node node_modules.
func Libraries(tb testing.TB, l Language) string {
	tb.Helper()
	s, err := newStore(io.Discard)
	if err != nil {
		tb.Fatal(err)
	}
	dir, err := s.language(starting(tb), l)
	if err != nil {
		tb.Fatal(err)
	}
	return dir
}

// Interpreter returns a command that runs a language's program.
func Interpreter(tb testing.TB, l Language, args ...string) *exec.Cmd {
	tb.Helper()
	dir := Libraries(tb, l)
	switch l {
	case Python:
		return exec.CommandContext(tb.Context(), filepath.Join(dir, "bin", "python"), args...)
	case Java:
		java, err := findJava(starting(tb))
		if err != nil {
			tb.Fatal(err)
		}
		return exec.CommandContext(tb.Context(), java, append([]string{"-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-XX:+UseSerialGC"}, args...)...)
	default:
		return exec.CommandContext(tb.Context(), "node", args...)
	}
}

func (s *store) language(ctx context.Context, l Language) (string, error) {
	libraries := l.libraries()
	if libraries == nil {
		return "", fmt.Errorf("unknown language %q", l)
	}
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(strings.Join(libraries, " ")))
	dir, err := s.entry(ctx, fmt.Sprintf("%s-%08x", l, hash.Sum32()), func(dir string) error {
		s.say("fetching libraries for %s", l)
		switch l {
		case Python:
			return installPython(ctx, dir, libraries)
		case Java:
			return installJava(ctx, dir, libraries)
		default:
			return installNode(ctx, dir, libraries)
		}
	})
	return dir, err
}

// installPython makes a virtual environment. It is moved afterwards, so that only its bin/python works, and not the other programs.
func installPython(ctx context.Context, dir string, libraries []string) error {
	python := func() error {
		_, err := run(ctx, dir, "python3", "-m", "venv", dir)
		return err
	}
	if err := python(); err != nil {
		if err := installDebian(ctx, "python3-venv"); err != nil {
			return missing("Python 3.10 or newer with venv is needed for tests of the clients: install it (on Debian `sudo apt-get install python3-venv`)", err)
		}
		if err := python(); err != nil {
			return err
		}
	}
	_, err := run(ctx, dir, append([]string{filepath.Join(dir, "bin", "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"}, libraries...)...)
	return err
}

func installJava(ctx context.Context, dir string, libraries []string) error {
	var dependencies strings.Builder
	for _, l := range libraries {
		part := strings.Split(l, ":")
		fmt.Fprintf(&dependencies, "<dependency><groupId>%s</groupId><artifactId>%s</artifactId><version>%s</version></dependency>\n", part[0], part[1], part[2])
	}
	pom := filepath.Join(dir, "pom.xml")
	text := `<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>cdc-relay</groupId><artifactId>java</artifactId><version>1</version><dependencies>
` + dependencies.String() + "</dependencies></project>\n"
	if err := os.WriteFile(pom, []byte(text), 0o644); err != nil {
		return err
	}
	return maven(ctx, dir, "-f", pom, "dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory="+dir)
}

// installNode installs from a package.json of its own: npm would otherwise look for one above dir.
func installNode(ctx context.Context, dir string, libraries []string) error {
	versions := map[string]string{}
	for _, l := range libraries {
		at := strings.LastIndexByte(l, '@')
		versions[l[:at]] = l[at+1:]
	}
	text, err := json.Marshal(map[string]any{"private": true, "dependencies": versions})
	if err != nil {
		return err
	}
	if err := errors.Join(needNPM(ctx), os.WriteFile(filepath.Join(dir, "package.json"), text, 0o644)); err != nil {
		return err
	}
	_, err = run(ctx, dir, "npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts")
	return err
}
