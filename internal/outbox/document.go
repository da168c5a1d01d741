package outbox

import (
	"bytes"
	"errors"
	"io"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// document is a JSON column that accessors look into, as a tree of their paths.
type document struct {
	column Accessor
	root   node
	values int // number of paths
}

// node is a place in a document to which paths lead or through which they go.
type node struct {
	members  []member
	elements []element
	value    int   // the path that ends here; -1: none
	below    []int // the paths that end here or further down
}

type member struct {
	name string
	node *node
}

type element struct {
	index int
	node  *node
}

// add returns the index of a path's value.
func (d *document) add(path []step) int {
	if d.values == 0 {
		d.root.value = -1
	}
	through, n := []*node{&d.root}, &d.root
	for _, s := range path {
		n = n.child(s)
		through = append(through, n)
	}
	if n.value < 0 {
		n.value = d.values
		for _, n := range through {
			n.below = append(n.below, d.values)
		}
		d.values++
	}
	return n.value
}

func (n *node) child(s step) *node {
	if s.index < 0 {
		if i := slices.IndexFunc(n.members, func(m member) bool { return m.name == s.member }); i >= 0 {
			return n.members[i].node
		}
		n.members = append(n.members, member{s.member, &node{value: -1}})
		return n.members[len(n.members)-1].node
	}
	if i := slices.IndexFunc(n.elements, func(e element) bool { return e.index == s.index }); i >= 0 {
		return n.elements[i].node
	}
	n.elements = append(n.elements, element{s.index, &node{value: -1}})
	return n.elements[len(n.elements)-1].node
}

// reader finds the values of documents. The zero value can be used.
type reader struct {
	buf     bytes.Buffer
	decoder *jsontext.Decoder
	text    []byte   // the document
	found   [][]byte // as they stand in it, by path; nil: the document has none
	name    []byte   // scratch
}

// none is the answer for a column that is NULL.
func (r *reader) none(d *document) {
	r.found = slices.Grow(r.found[:0], d.values)[:d.values]
	clear(r.found)
}

// read finds the values of a document, which has to be one JSON value and nothing else. They are parts of text, which is not written to.
func (r *reader) read(d *document, text []byte) error {
	r.none(d)
	r.text = text
	r.buf = *bytes.NewBuffer(text)
	// In a column of the type json, and in text, a name may stand twice, and an escape may be half a surrogate.
	names, halves := jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)
	if r.decoder == nil {
		r.decoder = jsontext.NewDecoder(&r.buf, names, halves)
	} else {
		r.decoder.Reset(&r.buf, names, halves)
	}
	if err := r.value(&d.root); err != nil {
		return err
	}
	if _, err := r.decoder.ReadToken(); !errors.Is(err, io.EOF) {
		return errBehind
	}
	return nil
}

var errBehind = errors.New("something follows the value")

// value reads the value at a node, and finds what the paths through the node lead to. It replaces what they led to in an earlier member
// with the same name.
func (r *reader) value(n *node) error {
	for _, path := range n.below {
		r.found[path] = nil
	}
	kind := r.decoder.PeekKind()
	start := int(r.decoder.InputOffset())
	var err error
	switch {
	case kind == jsontext.KindBeginObject && len(n.members) > 0:
		err = r.object(n)
	case kind == jsontext.KindBeginArray && len(n.elements) > 0:
		err = r.array(n)
	default:
		err = r.decoder.SkipValue()
	}
	if err == nil && n.value >= 0 && kind != jsontext.KindNull {
		r.found[n.value] = bytes.TrimLeft(r.text[start:r.decoder.InputOffset()], " \t\r\n:,")
	}
	return err
}

func (r *reader) object(n *node) error {
	if _, err := r.decoder.ReadToken(); err != nil {
		return err
	}
	for r.decoder.PeekKind() == jsontext.KindString {
		quoted, err := r.decoder.ReadValue()
		if err != nil {
			return err
		}
		r.name, _ = jsontext.AppendUnquote(r.name[:0], quoted)
		if i := slices.IndexFunc(n.members, func(m member) bool { return m.name == string(r.name) }); i >= 0 {
			err = r.value(n.members[i].node)
		} else {
			err = r.decoder.SkipValue()
		}
		if err != nil {
			return err
		}
	}
	_, err := r.decoder.ReadToken() // the end, or what is wrong
	return err
}

func (r *reader) array(n *node) error {
	if _, err := r.decoder.ReadToken(); err != nil {
		return err
	}
	for index := 0; ; index++ {
		if kind := r.decoder.PeekKind(); kind == jsontext.KindEndArray || kind == jsontext.KindInvalid {
			_, err := r.decoder.ReadToken() // the end, or what is wrong
			return err
		}
		var err error
		if i := slices.IndexFunc(n.elements, func(e element) bool { return e.index == index }); i >= 0 {
			err = r.value(n.elements[i].node)
		} else {
			err = r.decoder.SkipValue()
		}
		if err != nil {
			return err
		}
	}
}
