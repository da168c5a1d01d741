package outbox

import (
	"fmt"
	"slices"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Plan is a [Layout] applied to the schema of a table: where each part of an event stands in its rows. It is immutable.
type Plan struct {
	// Table is the schema.
	Table *cdc.Table
	// Parts is how each part is read, by role.
	Parts [Roles]Accessor
	// Required reports, by role, whether a row with NULL in it is malformed.
	Required [Roles]bool
	// Null is what a NULL payload becomes.
	Null NullPayload
	// Incomplete is why no row of this schema makes a record; nil: it does.
	Incomplete *Fault

	documents []document // that accessors look into
	zone      *cdc.Zone
}

// Accessor reads a value of a row; see [Row.Text]. The zero value reads NULL.
type Accessor struct {
	kind   kind
	form   cdc.Form
	plain  bool  // the value is the bytes in the arena
	ascii  bool  // rendered by the relay
	padded bool  // with spaces, which are no part of the value
	number int32 // of the column, from 1; 0: the rows have none

	*detail // what few events need, so that the rest is close together
}

type detail struct {
	// Name is what is read, for error messages: "column payload".
	Name string

	typ      cdc.Type  // of the column
	encoding string    // of a payload; see [Part]
	zone     *cdc.Zone // of a time without one; nil: UTC
	text     []byte    // the constant
	pieces   []accessorPiece
	document int  // its index in the plan
	path     int  // the index of the value in the document
	key      bool // which no object is: the same one may be written in several ways, and would be in several partitions
}

// kind is how an accessor reads.
type kind uint8

const (
	kindNone kind = iota
	kindColumn
	kindConst
	kindTemplate
	kindJSON
)

// accessorPiece is text, or a column.
type accessorPiece struct {
	text   []byte
	column *Accessor // nil: text
}

// Exists reports whether there is anything to read: a constant, or columns that the rows have.
func (a *Accessor) Exists() bool { return a.kind != kindNone }

// Constant returns the text that the value is in all rows, and false if it may differ.
func (a *Accessor) Constant() ([]byte, bool) {
	if a.kind != kindConst {
		return nil, false
	}
	return a.text, true
}

// IsText reports whether the value may be any text, and not only what a type of the database prints.
func (a *Accessor) IsText() bool { return a.kind != kindColumn || a.form == cdc.FormText }

// Index returns the index of the column whose value this is, byte for byte; -1 if there is none.
func (a *Accessor) Index() int {
	if a.kind != kindColumn || a.encoding != "" || a.zone != nil {
		return -1
	}
	return int(a.number) - 1
}

// Fixed is how many bytes of each value are text of a template.
func (a *Accessor) Fixed() (n int) {
	for i := range a.pieces {
		n += len(a.pieces[i].text)
	}
	return n
}

// Plan finds the parts of an event in a table. setting is the table's place in the configuration ("tables[0]"). An error is a
// [cdc.StopError] about the table or the configuration.
func (l Layout) Plan(t *cdc.Table, setting string) (*Plan, error) {
	p := &Plan{Table: t, Null: l.Null(), zone: l.Zone}
	for role := range Roles {
		part := l.Part(role)
		p.Required[role] = l.NotNull(role)
		a, missing, err := p.Accessor(part)
		switch {
		case err != nil:
			return nil, err
		case missing != "" && l.MustExist(role) && !p.Added(missing):
			return nil, p.missing(missing, fmt.Sprintf("name the column that holds the %s under %s.columns", role, setting))
		case role == EventID && l.TextID && isBytes(t, l.Column(role)):
			return nil, cdc.Stop(cdc.ClassConfig, "column_type", fmt.Errorf("column %s of %s is of type bytea, and an event ID is text", l.Column(role), t),
				fmt.Sprintf("name a column of type uuid, text or bigint, or the like, under %s.columns.%s", setting, role))
		case role == OccurredAt && a.kind == kindColumn && !a.mayBeTime():
			return nil, cdc.Stop(cdc.ClassConfig, cdc.MissingColumn, fmt.Errorf("column %s of %s is not a time", part.Column, t),
				fmt.Sprintf("name a time column under %s.columns.%s", setting, role))
		}
		if role == EventID {
			a.Name = "column " + l.Column(role) // which a fault is about
		}
		a.key = role == PartitionKey || role == AggregateID
		p.Parts[role] = a
	}
	return p, nil
}

// Accessor returns what reads a part, or the first of its columns that the rows lack; then it reads NULL. With an error about a column it
// is of that column.
func (p *Plan) Accessor(part *Part) (a Accessor, missing string, err error) {
	for _, name := range part.Columns() {
		if a, err = Column(p.Table, name); err != nil {
			return a, "", err
		}
		if p.Table.Index(name) < 0 {
			return Accessor{detail: &detail{Name: part.String()}}, name, nil
		}
	}
	switch {
	case part.Column != "":
		a, err = p.column(part.Column)
		a.encoding = part.Encoding
	case part.Const != "":
		a = Accessor{kind: kindConst, detail: &detail{text: []byte(part.Const)}}
	case part.Template != "":
		a = p.template(part.Template)
	case part.JSON != "":
		a, err = p.value(part)
	default:
		a.detail = new(detail)
	}
	a.Name = part.String()
	return a, "", err
}

// Key is [Plan.Accessor] for a part that is a key, or a partition. A column of JSON is read as a document: a text is then without quotes, and an
// object malformed.
func (p *Plan) Key(part *Part) (a Accessor, missing string, err error) {
	read := part
	if i := p.Table.Index(part.Column); i >= 0 && p.Table.Columns[i].Type == cdc.TypeJSON {
		read = &Part{JSON: part.Column}
	}
	if a, missing, err = p.Accessor(read); err == nil {
		a.key, a.Name = true, part.String()
	}
	return a, missing, err
}

// Need is [Plan.Accessor] for a part whose columns the table must have. setting is its place in the configuration.
func (p *Plan) Need(part *Part, setting string) (Accessor, error) {
	a, missing, err := p.Accessor(part)
	if err == nil && missing != "" && !p.Added(missing) {
		err = p.missing(missing, "correct "+setting)
	}
	return a, err
}

func (p *Plan) missing(column, fix string) error {
	return cdc.Stop(cdc.ClassConfig, cdc.MissingColumn, fmt.Errorf("column %s of %s is missing", column, p.Table), "add it to the table, or "+fix)
}

func (p *Plan) template(text string) Accessor {
	a := Accessor{kind: kindTemplate, detail: new(detail)}
	pieces, _ := CutTemplate(text) // checked before
	for _, piece := range pieces {
		made := accessorPiece{text: []byte(piece.Text)}
		if piece.Name != "" {
			column, _ := p.column(piece.Name) // which the caller has looked for
			made.column = &column
		}
		a.pieces = append(a.pieces, made)
	}
	return a
}

// value returns what reads a value of a document. All paths into a column share one.
func (p *Plan) value(part *Part) (Accessor, error) {
	steps, err := parsePath(part.Path)
	if err != nil {
		return Accessor{}, err
	}
	at := slices.IndexFunc(p.documents, func(d document) bool { return p.Table.Columns[d.column.number-1].Name == part.JSON })
	if at < 0 {
		column, _ := Column(p.Table, part.JSON) // which the caller has looked for
		at, p.documents = len(p.documents), append(p.documents, document{column: column})
	}
	return Accessor{kind: kindJSON, detail: &detail{document: at, path: p.documents[at].add(steps)}}, nil
}

// Added reports whether the table has a column by now that it did not have when rows of this schema were written: then there is nothing
// to correct in the table or the configuration, and the rows are to blame. The first such column is noted in Incomplete.
func (p *Plan) Added(column string) bool {
	now := p.Table.Now
	if now == nil || p.Table.Index(column) >= 0 || now.Index(column) < 0 {
		return false
	}
	if p.Incomplete == nil {
		p.Incomplete = withoutColumn(column, p.Table)
	}
	return true
}

// column is [Column], with the zone of times that have none.
func (p *Plan) column(name string) (Accessor, error) {
	a, err := Column(p.Table, name)
	if a.number > 0 && p.Table.Columns[a.number-1].Type == cdc.TypeLocalTime {
		a.zone = p.zone
	}
	return a, err
}

// Column returns what reads a column, which the table need not have. It refuses one in a character set or a binary form that the source does not know.
func Column(t *cdc.Table, name string) (Accessor, error) {
	a, i := Accessor{detail: &detail{Name: "column " + name}}, t.Index(name)
	if i < 0 {
		return a, nil
	}
	a.kind, a.number, a.form = kindColumn, int32(i+1), t.Columns[i].Form
	a.typ = t.Columns[i].Type
	a.padded = a.typ == cdc.TypeChar
	switch a.form {
	case cdc.FormText, cdc.FormBytes:
		a.plain = !a.padded
	case cdc.FormForeign:
		return a, cdc.Stop(cdc.ClassConfig, "charset", fmt.Errorf(
			"column %s of %s is in a character set that the relay does not know", name, t),
			"convert it to utf8mb4, ascii or latin1 (ALTER TABLE ... MODIFY ... CHARACTER SET utf8mb4), or name another column")
	case cdc.FormOpaque:
		return a, cdc.Stop(cdc.ClassConfig, "column_type", fmt.Errorf(
			"column %s of %s is in a binary form that the relay does not know: no part of an event needed it when its rows were received", name, t),
			"name another column; if the event is a dead letter, publish it from its table with `cdc-relay replay --id ID`, and then drop the dead letter with `cdc-relay dlq drop ID`")
	case cdc.FormUUID, cdc.FormMicros2000, cdc.FormLocalMicros2000, cdc.FormInt, cdc.FormBool:
		a.ascii = true
	default:
	}
	return a, nil
}

func isBytes(t *cdc.Table, column string) bool {
	i := t.Index(column)
	return i >= 0 && t.Columns[i].Type == cdc.TypeBytes
}

// mayBeTime is true for text, which may be any, but not for what a database prints of other types.
func (a *Accessor) mayBeTime() bool {
	switch a.form {
	case cdc.FormText:
		return a.typ < cdc.TypeBytes || a.typ > cdc.TypeJSON
	case cdc.FormTimestampText, cdc.FormMicros2000, cdc.FormLocalMicros2000:
		return true
	default:
		return false
	}
}
