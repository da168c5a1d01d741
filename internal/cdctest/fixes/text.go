package fixes

import (
	"cmp"
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"
)

// unknown stands for what only a run knows.
const unknown = "…"

// reading is the way through the code from a fix to its text.
type reading struct {
	code *code
	seen map[ast.Expr]bool
	// params are the parameters of the function through which the fix comes.
	params []string
}

func (c *code) read() *reading { return &reading{code: c, seen: map[ast.Expr]bool{}} }

// text is the text of an expression in a function; the alternatives of a variable come one after the other.
func (r *reading) text(fn *function, e ast.Expr) string {
	if r.seen[e] {
		return ""
	}
	r.seen[e] = true
	switch e := e.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil && e.Kind == token.STRING {
			return text
		}
	case *ast.BinaryExpr:
		return r.text(fn, e.X) + r.text(fn, e.Y)
	case *ast.ParenExpr:
		return r.text(fn, e.X)
	case *ast.IndexExpr:
		return r.text(fn, e.X)
	case *ast.CompositeLit:
		return r.any(fn, e.Elts)
	case *ast.KeyValueExpr:
		return r.text(fn, e.Value)
	case *ast.CallExpr:
		return r.called(fn, e)
	case *ast.SelectorExpr:
		if pkg, ok := e.X.(*ast.Ident); ok && len(r.code.values[pkg.Name+"."+e.Sel.Name]) > 0 {
			return r.any(fn, r.code.values[pkg.Name+"."+e.Sel.Name])
		}
		return r.named(fn, e.Sel.Name)
	case *ast.Ident:
		if values := fn.locals[e.Name]; len(values) > 0 {
			return r.any(fn, values)
		}
		if _, is := fn.params[e.Name]; is {
			r.params = append(r.params, e.Name)
			return unknown
		}
		return r.named(fn, e.Name)
	}
	return unknown
}

// named is the text of what the function's package calls by a name. Fields of fixes are fixes of their own.
func (r *reading) named(fn *function, name string) string {
	if strings.EqualFold(name, "fix") {
		return unknown
	}
	return r.any(fn, r.code.values[fn.pkg+"."+name])
}

// called is the text of what a call returns: that of its arguments, as for fmt.Sprintf, and of what a function of the package
// returns.
func (r *reading) called(fn *function, call *ast.CallExpr) string {
	texts := []string{r.any(fn, call.Args)}
	for _, callee := range r.code.functions {
		if callee.pkg == fn.pkg && callee.name == name(call) && callee.name != fn.name && len(callee.results) > 0 {
			inner := &reading{code: r.code, seen: r.seen}
			texts = append(texts, inner.any(callee, callee.results))
		}
	}
	return joined(texts)
}

func (r *reading) any(fn *function, all []ast.Expr) string {
	var texts []string
	for _, e := range all {
		texts = append(texts, r.text(fn, e))
	}
	return joined(texts)
}

func joined(texts []string) string {
	known := slices.DeleteFunc(texts, func(text string) bool { return text == "" || text == unknown })
	return cmp.Or(strings.Join(known, unknown), unknown)
}

// name is that of the function or method that is called.
func name(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}
