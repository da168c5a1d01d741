package outbox

import (
	"cmp"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Part says what a part of an event is made of. Exactly one of Column, Const, Template and JSON is set; in the zero value none is, and the
// part is always NULL.
type Part struct {
	// Column is the name of a column.
	Column string
	// Encoding is how the column holds a payload: [Base64], [Hex], or "" for as it is. With Column.
	Encoding string
	// Const is the same text for all rows.
	Const string
	// Template is a text in which ${name} stands for a column; NULL if one of them is.
	Template string
	// JSON is a column that holds a JSON document, and Path a value in it; "" is the whole document. NULL if there is none, or null.
	JSON, Path string
}

// The encodings of a payload.
const (
	Base64 = "base64"
	Hex    = "hex"
)

// Of returns the part that is a column.
func Of(column string) Part { return Part{Column: column} }

// Check returns an error with a fix if a part of that role cannot be made so.
func (p *Part) Check(role Role) error {
	set := 0
	for _, text := range []string{p.Column, p.Const, p.Template, p.JSON} {
		if text != "" {
			set++
		}
	}
	_, ok := CutTemplate(p.Template)
	switch {
	case set == 0:
		return cdc.Fixable("give a column, or one of const, template, and json with path", "names nothing")
	case set > 1:
		return cdc.Fixable("keep one", "has more than one of column, const, template and json")
	case !ok:
		return cdc.Fixable("write ${column}", "has the template %q, in which a ${ has no name or no closing }", p.Template)
	case role == EventID && !p.isID():
		return cdc.Fixable(`name a column, or give a template such as "orders-${id}"`, "is not a column, nor a text with one column after it, and rows are looked for by it")
	case p.Column == "" && role == CreatedAt:
		return cdc.Fixable("name a column", "is not a column, and rows are looked for by it")
	case p.Column == "" && role == Headers:
		return cdc.Fixable("name a column that holds a JSON object", "is not a column")
	case p.Const != "" && role == PartitionKey:
		return cdc.Fixable("name a column, or remove it", "is the same for all events, so that one partition would have them all")
	case p.Encoding != "" && (role != Payload || p.Column == ""):
		return cdc.Fixable("remove it", "has an encoding, and only a payload that is a column has one")
	case p.Path != "" && p.JSON == "":
		return cdc.Fixable("name the column under json", "has a path without json")
	case p.JSON != "":
		_, err := parsePath(p.Path)
		return err
	}
	return nil
}

// ID returns what an event's ID is made of: a text, "" for none, and the column behind it. The column is "" if no ID can be made so.
func (p *Part) ID() (prefix, column string) {
	pieces, _ := CutTemplate(p.Template)
	if len(pieces) == 2 && pieces[0].Name == "" {
		return pieces[0].Text, pieces[1].Name
	}
	return "", p.Column
}

func (p *Part) isID() bool {
	_, column := p.ID()
	return column != ""
}

// CheckPartition returns an error with a fix if a record's partition cannot be made so.
func (p *Part) CheckPartition() error {
	if err := p.Check(Topic); err != nil {
		return err
	}
	if _, ok := ParsePartition([]byte(p.Column)); ok {
		return cdc.Fixable("write the number of a partition as {const: NUMBER}", "names the column %s", p.Column)
	}
	if _, ok := ParsePartition([]byte(p.Const)); !ok && p.Const != "" {
		return cdc.Fixable("give the number of a partition: 0, 1, 2 and so on", "is %q, which is not the number of a partition", p.Const)
	}
	return nil
}

// ParsePartition reads the number of a partition, and returns false for a text that is none.
func ParsePartition(text []byte) (int32, bool) {
	n, err := strconv.ParseUint(string(text), 10, 31)
	return int32(n), err == nil && n < math.MaxInt32 // Kafka counts partitions in an int32
}

// Columns returns the columns that the part reads.
func (p *Part) Columns() []string {
	switch {
	case p.Column != "":
		return []string{p.Column}
	case p.JSON != "":
		return []string{p.JSON}
	}
	var names []string
	pieces, _ := CutTemplate(p.Template) // checked before
	for _, piece := range pieces {
		if piece.Name != "" {
			names = append(names, piece.Name)
		}
	}
	return names
}

// String names what the part is, for error messages; "" for nothing.
func (p *Part) String() string {
	switch {
	case p.Column != "":
		return "column " + p.Column
	case p.JSON != "":
		return cmp.Or(p.Path, "$") + " of column " + p.JSON
	case p.Template != "":
		return "template " + p.Template
	case p.Const != "":
		return "constant " + p.Const
	}
	return ""
}

// FullMatch compiles a regular expression that must match the whole value. It is compiled alone first, so that unbalanced brackets are
// an error and do not pair up with the added ones.
func FullMatch(expression string) (*regexp.Regexp, error) {
	if re, err := regexp.Compile(expression); err != nil {
		return re, err
	}
	return regexp.Compile(`\A(?:` + expression + `)\z`)
}

// Piece is a part of a template: text, or a name that stands as ${name}.
type Piece struct{ Text, Name string }

// CutTemplate returns the pieces of a template, and false if a ${ has no name or no closing }.
func CutTemplate(template string) (pieces []Piece, ok bool) {
	for rest := template; rest != ""; {
		text, behind, found := strings.Cut(rest, "${")
		if text != "" {
			pieces = append(pieces, Piece{Text: text})
		}
		if !found {
			break
		}
		name, after, closed := strings.Cut(behind, "}")
		if !closed || name == "" {
			return nil, false
		}
		pieces = append(pieces, Piece{Name: name})
		rest = after
	}
	return pieces, true
}
