package writer_test

import (
	"database/sql"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/writer"
)

var _ writer.Tx = (*sql.Tx)(nil)

// appending is a caller's source file; the argument of Append is the variable part.
const appending = `package p

import (
	"context"
	"database/sql"

	"github.com/cdc-relay/cdc-relay/writer"
)

type wrapped struct{ *sql.Tx } // as sqlx and bun do

func f(ctx context.Context, w *writer.Writer, to %s) error { return w.Append(ctx, to) }
`

// The type checker refuses a connection pool and a bare connection, so an event cannot be appended outside a transaction by
// mistake.
func TestOnlyTransactionsCompile(t *testing.T) {
	fset := token.NewFileSet()
	compiled := compiledImporter(t, fset)
	for to, refusal := range map[string]string{
		"*sql.Tx":   "",
		"wrapped":   "",
		"writer.Tx": "",
		"*sql.DB":   "missing method Commit",
		"*sql.Conn": "missing method Commit",
		"*sql.Stmt": "does not implement writer.Tx",
	} {
		file, err := parser.ParseFile(fset, "p.go", fmt.Sprintf(appending, to), 0)
		if err != nil {
			t.Fatal(err)
		}
		_, err = (&types.Config{Importer: compiled}).Check("p", fset, []*ast.File{file}, nil)
		switch {
		case refusal == "" && err != nil:
			t.Errorf("%s does not compile: %v", to, err)
		case refusal != "" && (err == nil || !strings.Contains(err.Error(), refusal)):
			t.Errorf("%s: error %v, want %q", to, err, refusal)
		}
	}
}

// compiledImporter reads the export data of the packages that appending imports.
func compiledImporter(t *testing.T, fset *token.FileSet) types.Importer {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}",
		"context", "database/sql", "github.com/cdc-relay/cdc-relay/writer").Output()
	if err != nil {
		t.Fatal(err)
	}
	exports := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, export, _ := strings.Cut(strings.TrimSpace(line), " ")
		exports[path] = export
	}
	return importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
}
