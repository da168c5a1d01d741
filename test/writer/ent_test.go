package writer_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/testenv"
	"github.com/cdc-relay/cdc-relay/writer"
)

// Ent's transaction, generated with the feature sql/execquery, is the writer's. The program in testdata/ent is built here, because
// the generated code is 3,000 lines.
func TestEnt(t *testing.T) {
	program := buildEnt(t)
	onEach(t, func(t *testing.T, e engine) {
		db, _ := newShop(t, e)
		args := []string{"pgx", pg.DSN(db.name, ""), fmt.Sprint(writer.Postgres)}
		if m, ok := e.(mysql); ok {
			args = []string{"mysql", m.DSN(db.name, ""), fmt.Sprint(m.dialect())}
		}
		if out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if rows, n := written(t, db), count(t, db, "purchases"); rows != "first Placed, second Placed, third Placed, fourth Placed" || n != 4 {
			t.Errorf("events %q, %d purchases", rows, n)
		}
	})
}

// buildEnt builds the program in a module of its own, with the versions of this one.
func buildEnt(t *testing.T) (program string) {
	t.Helper()
	root, err := filepath.Abs("../..")
	testenv.Must(t, err)
	dir := t.TempDir()
	testenv.Must(t, os.CopyFS(dir, os.DirFS("testdata/ent")))
	for _, name := range []string{"main.go", "ent/schema/purchase.go"} { // as .txt they are no package without ent's code
		testenv.Must(t, os.Rename(filepath.Join(dir, name+".txt"), filepath.Join(dir, name)))
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join("..", name))
		testenv.Must(t, err)
		testenv.Must(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	program = filepath.Join(dir, "program")
	for _, args := range [][]string{
		{
			"mod", "edit", "-module=example.com/shop", "-replace=github.com/cdc-relay/cdc-relay/writer=" + filepath.Join(root, "writer"),
			"-replace=github.com/cdc-relay/cdc-relay/inbox=" + filepath.Join(root, "inbox"),
		},
		{"tool", "ent", "generate", "--feature", "sql/execquery", "./ent/schema"},
		{"build", "-o", program, "."},
	} {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %v: %v\n%s", args, err, out)
		}
	}
	return program
}
