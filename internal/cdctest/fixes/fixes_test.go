package fixes

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const root = "../../.."

// write makes a repository of one file.
func write(t *testing.T, path, text string) string {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{"internal/p", "cmd", filepath.Dir(path)} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, path), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A fix is found however it is passed, with its parts, and those that move nothing are left out.
func TestPrinted(t *testing.T) {
	dir := write(t, "internal/p/p.go", "package p\n"+`
const (
	reset = "drop it with `+"`cdc-relay position reset`"+`"
	lost  = "slot_lost"
)

func stop(reason, fix, format string) error { return nil }

func literal() error  { return stop("a", "run cdc-relay repair", "") }
func constant() error { return stop(lost, reset, "") }
func again() error    { return stop(lost, reset, "") }
func built() error    { return stop("b", "set "+setting()+" to another", "") }
func setting() string { return "kafka.position_topic" }
func passed() error   { return advise("run cdc-relay setup") }
func advise(what string) error {
	return cdc.Fixable(fmt.Sprintf("%s, then check", what), "")
}
func shows() error { return stop("c", "see cdc-relay position show", "") }
func (s *s) field() { s.Fix = "set errors.skip"; _ = T{Fix: "set errors.skip: []"} }
func table() {
	for _, row := range []struct{ cause, fix string }{{"x", "run cdc-relay teardown"}} {
		_ = row
	}
}
func logged() { log.Warn("left", "fix", "SELECT pg_drop_replication_slot('x')") }
func closure() {
	say := func(fix string) error { return nil }
	say("run cdc-relay replay")
}
func two() error {
	_ = stop("d", "run cdc-relay dlq drop", "")
	return stop("d", "run cdc-relay dlq drop or cdc-relay dlq retry", "")
}
`)
	if err := os.WriteFile(filepath.Join(dir, "cmd", "cdc.go"), []byte("package cdc\n\nfunc Fixable(fix, format string) error { return nil }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	found, err := Printed(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range found {
		names = append(names, f.Name+" "+strings.Join(f.Moves, ","))
	}
	want := []string{
		"p.again/slot_lost position reset", "p.built/b kafka.position_topic", "p.closure replay", "p.field errors.skip", "p.field#2 errors.skip",
		"p.literal/a repair", "p.logged slot", "p.passed setup", "p.table teardown", "p.two/d dlq drop", "p.two/d#2 dlq drop,dlq retry",
	}
	if !slices.Equal(names, want) {
		t.Errorf("have %q\nwant %q", names, want)
	}
	if f := found[0]; !slices.Equal(f.Also, []string{"p.constant/slot_lost"}) || f.Line == 0 || f.File != "internal/p/p.go" {
		t.Errorf("%+v", f)
	}
}

// A test declares what it follows in its comment or beside a row.
func TestDeclared(t *testing.T) {
	const doc, row = "//follows:p.f/x repair, position reset\n", "\t//follows:p.g setup\n"
	found, err := Declared(write(t, "internal/p/p_test.go", "package p\n\n// TestX follows.\n//\n"+doc+"func TestX(t *testing.T) {\n"+row+"}\n"), "internal")
	want := []Followed{
		{"p.f/x", "repair", "TestX", "internal/p/p_test.go"},
		{"p.f/x", "position reset", "TestX", "internal/p/p_test.go"},
		{"p.g", "setup", "TestX", "internal/p/p_test.go"},
	}
	if err != nil || !slices.Equal(found, want) {
		t.Errorf("%+v, %v", found, err)
	}
	for _, bad := range []string{"package p\n\n" + doc, "package p\n\nfunc TestX(t *testing.T) {\n\t//follows:p.g\n}\n"} {
		if _, err := Declared(write(t, "internal/p/p_test.go", bad), "internal"); err == nil {
			t.Errorf("no error for %q", bad)
		}
	}
}

// A fix without a test is missed, and so is a declaration of a fix that is gone.
func TestMissing(t *testing.T) {
	printed := []Fix{{Name: "p.f/x", Also: []string{"p.g/x"}, File: "p.go", Line: 7, Moves: []string{"repair", "setup"}}}
	missing := func(followed ...Followed) string { return strings.Join(Missing(printed, followed), "\n") }
	if text := missing(Followed{Fix: "p.g/x", Move: "repair"}); !strings.Contains(text, "p.go:7: no test follows") || !strings.Contains(text, "//follows:p.f/x setup") ||
		strings.Contains(text, "//follows:p.f/x repair") {
		t.Error(text)
	}
	e := exemptions()[0]
	printed = append(printed, Fix{Name: e.fix, Moves: []string{e.move}})
	stale := "the exemption of " + e.fix + ", " + e.move + ", is for a fix that TestE follows"
	if text := missing(); strings.Contains(text, stale) || strings.Contains(text, "exemption of "+e.fix+", "+e.move+",") {
		t.Error(text)
	}
	if text := missing(Followed{Fix: e.fix, Move: e.move, Test: "TestE"}); !strings.Contains(text, stale) {
		t.Error(text)
	}
	if text := missing(Followed{Fix: "p.h/x", Move: "setup", Test: "TestH"}); !strings.Contains(text, "TestH declares") || !strings.Contains(text, "is it one of p.f/x?") {
		t.Error(text)
	}
}

// Every text of the product that tells a user to run a command that moves something is read as a fix, unless it is a help text.
func TestNoCommandIsOverlooked(t *testing.T) {
	c, err := parse(root, "internal", "cmd")
	if err != nil {
		t.Fatal(err)
	}
	for more := true; more; {
		_, more = c.printed()
	}
	read := map[ast.Expr]bool{}
	for _, fn := range c.functions {
		c.each(fn, func(_ ast.Node, fix ast.Expr, _ string) {
			r := &reading{code: c, seen: map[ast.Expr]bool{}}
			r.text(fn, fix)
			for e := range r.seen {
				read[e] = true
			}
		})
	}
	for _, fn := range c.functions {
		ast.Inspect(fn.node, func(node ast.Node) bool {
			if pair, ok := node.(*ast.KeyValueExpr); ok {
				if key, ok := pair.Key.(*ast.Ident); ok && slices.Contains([]string{"Use", "Short", "Long", "Example"}, key.Name) {
					return false
				}
			}
			if l, ok := node.(*ast.BasicLit); ok && l.Kind == token.STRING && !read[l] && strings.Contains(l.Value, "`cdc-relay ") && len(in(l.Value)) > 0 {
				t.Errorf("%s: %s is not read as a fix", c.files.Position(l.Pos()), l.Value)
			}
			return true
		})
	}
}
