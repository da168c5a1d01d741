// Package release installs the modules of this repository as a user would, before their tags exist.
package release

import (
	"archive/zip"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const (
	root       = "../.."
	modulePath = "github.com/cdc-relay/cdc-relay"
)

// user is a user outside of this repository: an empty module, a module cache, and a proxy with this repository's modules.
// Other modules come from this machine's module cache first.
type user struct {
	dir, bin string
	env      []string
}

func newUser(t *testing.T, version string) *user {
	t.Helper()
	proxy, dir := t.TempDir(), t.TempDir()
	for _, module := range []string{"", "/writer", "/writer/pgxwriter", "/writer/gormwriter", "/inbox", "/inbox/kgoinbox"} {
		publish(t, proxy, module, version)
	}
	u := &user{dir: dir, bin: filepath.Join(dir, "bin")}
	downloads := filepath.Join(goEnv(t, "GOMODCACHE"), "cache", "download")
	u.env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod -modcacherw -trimpath", "GOSUMDB=off", "CGO_ENABLED=0",
		"GOMODCACHE="+filepath.Join(dir, "modules"), "GOBIN="+u.bin,
		"GOPROXY=file://"+proxy+",file://"+downloads+","+goEnv(t, "GOPROXY"))
	u.write(t, "go.mod", "module example.com/shop\n\ngo 1.26.0\n")
	return u
}

func (u *user) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(u.dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (u *user) run(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = u.dir, u.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// publish writes the module at root+dir into a proxy directory, in the layout of the GOPROXY protocol.
func publish(t *testing.T, proxy, dir, version string) {
	t.Helper()
	versions := filepath.Join(proxy, filepath.FromSlash(modulePath+dir), "@v")
	if err := os.MkdirAll(versions, 0o750); err != nil {
		t.Fatal(err)
	}
	source := os.DirFS(root + dir)
	mod, err := fs.ReadFile(source, "go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"list": []byte(version + "\n"), version + ".info": []byte(`{"Version":"` + version + `"}`), version + ".mod": mod,
	} {
		if err := os.WriteFile(filepath.Join(versions, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := pack(filepath.Join(versions, version+".zip"), modulePath+dir+"@"+version+"/", source); err != nil {
		t.Fatal(err)
	}
}

// pack returns the module's zip, made from the working tree.
func pack(path, prefix string, source fs.FS) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	archive := zip.NewWriter(file)
	err = fs.WalkDir(source, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && leftOut(source, name):
			return fs.SkipDir
		case !entry.Type().IsRegular():
			return nil
		}
		return add(archive, prefix, source, name)
	})
	if err != nil {
		return err
	}
	return archive.Close()
}

// leftOut reports whether a directory is not part of the module: another module, or not in the repository.
func leftOut(source fs.FS, dir string) bool {
	if dir == "." {
		return false
	}
	_, err := fs.Stat(source, dir+"/go.mod")
	return err == nil || strings.HasPrefix(dir, ".") || dir == "bin"
}

func add(archive *zip.Writer, prefix string, source fs.FS, name string) error {
	in, err := source.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := archive.Create(prefix + name)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return err
}

// nextVersion is the version of writer that pgxwriter requires.
func nextVersion(t *testing.T) string {
	t.Helper()
	mod, err := os.ReadFile(root + "/writer/pgxwriter/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(regexp.QuoteMeta(modulePath) + `/writer (v\S+)`).FindStringSubmatch(string(mod))
	if len(found) < 2 || strings.HasPrefix(found[1], "v0.0.0") {
		t.Fatalf("writer/pgxwriter does not require a released version of writer:\n%s", mod)
	}
	return found[1]
}

const program = `package main

import (
	"context"
	"errors"

	"github.com/cdc-relay/cdc-relay/inbox"
	"github.com/cdc-relay/cdc-relay/inbox/kgoinbox"
	"github.com/cdc-relay/cdc-relay/writer"
	"github.com/cdc-relay/cdc-relay/writer/gormwriter"
	"github.com/cdc-relay/cdc-relay/writer/pgxwriter"
	"github.com/jackc/pgx/v5"
)

func place(ctx context.Context, events *writer.Writer, tx pgx.Tx) error {
	event, err := writer.JSON("Order", "o-1", "OrderPlaced", 1)
	if err != nil {
		return err
	}
	return events.Append(ctx, pgxwriter.Tx(tx), event)
}

func main() {
	if _, err := writer.New(writer.Postgres); err != nil {
		panic(err)
	}
	if _, err := gormwriter.Tx(nil); !errors.Is(err, writer.ErrNoTransaction) {
		panic(err)
	}
	_ = place
	in, err := inbox.New(pgxwriter.Pool(nil), "revenue")
	if err != nil {
		panic(err)
	}
	if _, err := kgoinbox.New(in, new(inbox.Registry[pgx.Tx]), kgoinbox.Config{}); err != nil {
		panic(err)
	}
}
`

func TestGoGetLibraries(t *testing.T) {
	version := nextVersion(t)
	u := newUser(t, version)
	get := []string{"get"}
	for _, m := range []string{"writer/pgxwriter", "writer/gormwriter", "inbox/kgoinbox"} {
		get = append(get, modulePath+"/"+m+"@"+version)
	}
	u.run(t, "go", get...)
	u.write(t, "main.go", program)
	u.run(t, "go", "get", ".")
	u.run(t, "go", "run", ".")
}

func TestGoInstallPrintsItsVersion(t *testing.T) {
	version := nextVersion(t)
	u := newUser(t, version)
	u.run(t, "go", "install", modulePath+"/cmd/cdc-relay@"+version)
	if out := u.run(t, filepath.Join(u.bin, "cdc-relay"), "version"); !strings.HasPrefix(out, "cdc-relay "+version+", ") {
		t.Errorf("cdc-relay version prints %q", out)
	}
}
