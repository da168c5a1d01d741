package fixes

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// code is the product's parsed code. Names are looked up by package, without types and receivers: where two things of a package
// share a name, a fix gets the texts of both, which can only make it name more.
type code struct {
	root      string
	files     *token.FileSet
	functions []*function
	// takes are the positions of the parameters named fix and reason, by package, function and parameter.
	takes map[string][]int
	// values are those of constants, variables and fields, by package and name.
	values map[string][]ast.Expr
}

// function is a declared function, or a declaration outside of functions, whose name is then that of its file.
type function struct {
	pkg, name, file string
	node            ast.Node
	params          map[string]int
	locals          map[string][]ast.Expr
	// results are what it returns, if that is a string.
	results []ast.Expr
}

func parse(root string, dirs ...string) (*code, error) {
	c := &code{root: root, files: token.NewFileSet(), takes: map[string][]int{}, values: map[string][]ast.Expr{}}
	for _, dir := range dirs {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir() && slices.Contains([]string{"cdctest", "testenv", "testdata"}, entry.Name()):
				return fs.SkipDir
			case entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
				return nil
			}
			return c.add(path)
		})
		if err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *code) add(path string) error {
	file, err := parser.ParseFile(c.files, path, nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	name, err := filepath.Rel(c.root, path)
	if err != nil {
		return err
	}
	pkg := file.Name.Name
	if pkg == "main" {
		pkg = "cmd"
	}
	for _, decl := range file.Decls {
		fn := &function{pkg: pkg, name: strings.TrimSuffix(filepath.Base(path), ".go"), file: name, node: decl, locals: map[string][]ast.Expr{}}
		f, inside := decl.(*ast.FuncDecl)
		if inside {
			fn.name, fn.params = f.Name.Name, params(f.Type)
			c.take(pkg, fn.name, f.Type)
		}
		c.functions = append(c.functions, fn)
		c.declare(fn, inside)
		if inside && (f.Type.Results == nil || !isString(f.Type.Results.List[0].Type)) {
			fn.results = nil
		}
	}
	return nil
}

// params returns the positions of the parameters that are strings.
func params(t *ast.FuncType) map[string]int {
	at, n := map[string]int{}, 0
	for _, field := range t.Params.List {
		for _, name := range field.Names {
			if isString(field.Type) {
				at[name.Name] = n
			}
			n++
		}
	}
	return at
}

func isString(e ast.Expr) bool {
	name, ok := e.(*ast.Ident)
	return ok && name.Name == "string"
}

// take notes through which parameters a function takes a fix and a reason.
func (c *code) take(pkg, name string, t *ast.FuncType) {
	at := params(t)
	for _, param := range []string{"fix", "reason"} {
		if i, ok := at[param]; ok {
			c.through(pkg, name, param, i)
		}
	}
}

// through notes a parameter, and reports whether it is new.
func (c *code) through(pkg, name, param string, i int) bool {
	key := pkg + "." + name + " " + param
	if slices.Contains(c.takes[key], i) {
		return false
	}
	c.takes[key] = append(c.takes[key], i)
	return true
}

// declare notes the values of names.
func (c *code) declare(fn *function, inside bool) {
	set := func(name, value ast.Expr) {
		switch n := name.(type) {
		case *ast.Ident:
			if literal, ok := value.(*ast.FuncLit); ok {
				c.take(fn.pkg, n.Name, literal.Type)
			}
			if inside {
				fn.locals[n.Name] = append(fn.locals[n.Name], value)
			} else {
				c.value(fn.pkg, n.Name, value)
			}
		case *ast.SelectorExpr:
			c.value(fn.pkg, n.Sel.Name, value)
		}
	}
	ast.Inspect(fn.node, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.AssignStmt:
			for i := range n.Lhs {
				if len(n.Lhs) == len(n.Rhs) {
					set(n.Lhs[i], n.Rhs[i])
				}
			}
		case *ast.ValueSpec:
			for i := range n.Values {
				set(n.Names[i], n.Values[i])
			}
		case *ast.ReturnStmt:
			fn.results = append(fn.results, n.Results...)
		case *ast.KeyValueExpr:
			if name, ok := n.Key.(*ast.Ident); ok {
				c.value(fn.pkg, name.Name, n.Value)
			}
		}
		return true
	})
}

func (c *code) value(pkg, name string, value ast.Expr) {
	c.values[pkg+"."+name] = append(c.values[pkg+"."+name], value)
}
