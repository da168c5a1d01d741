package fixes

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strings"
)

// Fix is a fix that the product prints and that moves something.
type Fix struct {
	// Name is "package.function/reason", without the reason if it is no error with one.
	Name string
	// Line is that of its place in File, which is named from the root of the repository.
	File string
	Line int
	// Text has "…" for what only a run knows.
	Text string
	// Moves are the names of the commands and settings in it.
	Moves []string
	// Also are the names under which other functions print the same text for the same reason.
	Also []string
}

// Printed returns the fixes of the product's code that move something, in the order of their names.
func Printed(root string) ([]Fix, error) {
	c, err := parse(root, "internal", "cmd")
	if err != nil {
		return nil, err
	}
	var all []Fix
	for more := true; more; { // until no other function is found that passes a fix on
		all, more = c.printed()
	}
	slices.SortStableFunc(all, func(a, b Fix) int { return strings.Compare(a.Name, b.Name) })
	return merged(all), nil
}

// merged has each text for a reason once, and numbers what one function says for one reason.
func merged(all []Fix) []Fix {
	var once []Fix
	n := map[string]int{}
	for _, f := range all {
		same := slices.IndexFunc(once, func(o Fix) bool {
			pkg, _, _ := strings.Cut(f.Name, ".")
			return o.Text == f.Text && strings.HasPrefix(o.Name, pkg+".") && reason(o.Name) == reason(f.Name)
		})
		if same >= 0 {
			if o := &once[same]; o.Name != f.Name && !slices.Contains(o.Also, f.Name) {
				o.Also = append(o.Also, f.Name)
			}
			continue
		}
		if n[f.Name]++; n[f.Name] > 1 {
			f.Name = fmt.Sprintf("%s#%d", f.Name, n[f.Name])
		}
		once = append(once, f)
	}
	return once
}

func reason(name string) string {
	_, of, _ := strings.Cut(name, "/")
	of, _, _ = strings.Cut(of, "#")
	return of
}

// word is what a reason looks like.
var word = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// printed also reports whether it found another function that passes a fix on.
func (c *code) printed() (all []Fix, more bool) {
	for _, fn := range c.functions {
		c.each(fn, func(at ast.Node, fix ast.Expr, reason string) {
			r := c.read()
			text := r.text(fn, fix)
			for _, param := range r.params {
				more = c.through(fn.pkg, fn.name, "fix", fn.params[param]) || more
			}
			moves := in(text)
			if len(moves) == 0 {
				return
			}
			f := Fix{Name: fn.pkg + "." + fn.name, File: fn.file, Line: c.files.Position(at.Pos()).Line, Text: text, Moves: moves}
			if word.MatchString(reason) {
				f.Name += "/" + reason
			}
			all = append(all, f)
		})
	}
	return all, more
}

// each calls found for each fix in a function.
func (c *code) each(fn *function, found func(at ast.Node, fix ast.Expr, reason string)) {
	ast.Inspect(fn.node, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.CallExpr:
			c.passed(fn, n, found)
		case *ast.KeyValueExpr:
			if isFix(n.Key) {
				found(n, n.Value, "")
			}
		case *ast.CompositeLit:
			for _, value := range inRows(n) {
				found(value, value, "")
			}
		case *ast.AssignStmt:
			for i := range n.Lhs {
				if _, field := n.Lhs[i].(*ast.SelectorExpr); field && len(n.Lhs) == len(n.Rhs) && isFix(n.Lhs[i]) {
					found(n, n.Rhs[i], "")
				}
			}
		}
		return true
	})
}

func isFix(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return strings.EqualFold(e.Name, "fix")
	case *ast.SelectorExpr:
		return strings.EqualFold(e.Sel.Name, "fix")
	}
	return false
}

// passed finds the fix among the arguments of a call.
func (c *code) passed(fn *function, call *ast.CallExpr, found func(ast.Node, ast.Expr, string)) {
	reason := ""
	for _, i := range c.taken(fn, call, "reason") {
		reason = c.read().text(fn, call.Args[i])
	}
	for _, i := range c.taken(fn, call, "fix") {
		found(call, call.Args[i], reason)
	}
	for i, arg := range call.Args {
		literal, ok := arg.(*ast.BasicLit)
		switch {
		case !ok || literal.Kind != token.STRING:
		case literal.Value == `"fix"` && i+1 < len(call.Args): // an attribute of a log line
			found(call, call.Args[i+1], "")
		case strings.EqualFold(name(call), "printf") && strings.Contains(literal.Value, "`cdc-relay "):
			found(call, arg, "")
		}
	}
}

// taken returns which arguments are passed as a parameter: of the function of the package that is named or of the own one, else
// of a method of any package.
func (c *code) taken(fn *function, call *ast.CallExpr, param string) []int {
	key := "." + name(call) + " " + param
	found := c.takes[fn.pkg+key]
	if f, ok := call.Fun.(*ast.SelectorExpr); ok {
		if x, ok := f.X.(*ast.Ident); ok && len(c.takes[x.Name+key]) > 0 {
			found = c.takes[x.Name+key]
		}
		if len(found) == 0 {
			found = c.takes["finding"+key]
		}
	}
	return slices.DeleteFunc(slices.Clone(found), func(i int) bool { return i >= len(call.Args) })
}

// inRows returns the fixes of a table whose rows have no names of fields.
func inRows(l *ast.CompositeLit) (found []ast.Expr) {
	array, ok := l.Type.(*ast.ArrayType)
	if !ok {
		return nil
	}
	row, ok := array.Elt.(*ast.StructType)
	if !ok {
		return nil
	}
	at, ok := params(&ast.FuncType{Params: row.Fields})["fix"]
	for _, element := range l.Elts {
		values, isRow := element.(*ast.CompositeLit)
		if ok && isRow && at < len(values.Elts) {
			found = append(found, values.Elts[at])
		}
	}
	return found
}
