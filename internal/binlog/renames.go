package binlog

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-mysql-org/go-mysql/replication"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/mysql"
)

// renaming is a table that a statement gives another name.
type renaming struct{ from, to tableName }

// renamings reads RENAME TABLE and ALTER TABLE ... RENAME, both of which reserve their words.
func renamings(text, database string, executed bool) (list []renaming) {
	tokens, _ := tokensOf(text, executed)
	tokens = slices.DeleteFunc(tokens, func(t string) bool { return t == "*" || t == "/" }) // the end of an executed comment
	is := func(i int, words ...string) bool {
		return i < len(tokens) && slices.Contains(words, strings.ToLower(tokens[i]))
	}
	if is(0, "set") && is(1, "statement") { // MariaDB: SET STATEMENT … FOR the statement
		tokens = tokens[1+slices.IndexFunc(tokens, func(t string) bool { return strings.EqualFold(t, "for") }):]
	}
	name := func(i int) (n tableName, next int) { // of the table whose name begins at i
		if is(i, "if") { // EXISTS
			i += 2
		}
		switch {
		case i+2 < len(tokens) && tokens[i+1] == ".":
			return nameOf(tokens[i], tokens[i+2], database), i + 3
		case i < len(tokens):
			return nameOf("", tokens[i], database), i + 1
		}
		return tableName{}, i
	}
	switch {
	case is(0, "rename") && is(1, "table", "tables"):
		for i := 2; i < len(tokens); i++ {
			var r renaming
			r.from, i = name(i)
			for i < len(tokens) && !is(i, "to") { // MariaDB: WAIT n
				i++
			}
			r.to, i = name(i + 1)
			list = append(list, r)
		}
	case is(0, "alter"):
		i := slices.IndexFunc(tokens, func(t string) bool { return strings.EqualFold(t, "table") })
		if i < 0 || i > 3 { // ONLINE, IGNORE
			return nil
		}
		from, next := name(i + 1)
		for i = next; i < len(tokens); i++ {
			if is(i, "rename") && !is(i+1, "column", "index", "key") {
				for is(i+1, "to", "as", "=") {
					i++
				}
				to, _ := name(i + 1)
				list = append(list, renaming{from, to})
			}
		}
	}
	return slices.DeleteFunc(list, func(r renaming) bool { return r.to.table == "" })
}

// shadow is what gh-ost and pt-online-schema-change call the table that they put in the place of another one. It holds copies of that
// one's rows only, and both change their names in one statement, so that nothing is written in between.
var shadow = regexp.MustCompile(`^_+(.+)_(?:gho|new)$`)

// mentionsRename spares most statements the tokens.
func mentionsRename(sql []byte) bool {
	for i := 0; i+len("rename") <= len(sql); i++ {
		if sql[i]|0x20 == 'r' && bytes.EqualFold(sql[i:i+len("rename")], []byte("rename")) {
			return true
		}
	}
	return false
}

// usualQuotes is a statement that the usual sql_mode would read as the session's has read it, as far as names and strings go.
func usualQuotes(text string, variables []byte) string {
	var mode uint64
	eachStatus(variables, func(kind byte, value []byte) {
		if kind == statusMode {
			mode = binary.LittleEndian.Uint64(value)
		}
	})
	for _, odd := range []struct {
		mode  uint64
		marks []string // each with what stands for it
	}{
		{modeANSIQuotes, []string{`"`, "`"}},
		{modeMSSQL, []string{"[", "`", "]", "`"}},
		{modeNoBackslashEscapes, []string{`\`, "_"}},
	} {
		if mode&odd.mode != 0 {
			text = strings.NewReplacer(odd.marks...).Replace(text)
		}
	}
	return text
}

// renamed returns an error if a statement gives a configured table another name, or another table its name: the binlog knows rows by
// the name that their table had when they were written.
func (ss *session) renamed(q *replication.QueryEvent) error {
	if !mentionsRename(q.Query) {
		return nil
	}
	text := usualQuotes(string(q.Query), q.StatusVars)
	readings := [][]renaming{renamings(text, string(q.Schema), true), renamings(text, string(q.Schema), false)}
	for _, list := range slices.CompactFunc(readings, slices.Equal) {
		if err := ss.renames(list); err != nil {
			return err
		}
	}
	return nil
}

// renames is renamed for what one statement does, in this order.
func (ss *session) renames(list []renaming) error {
	halves := map[int]bool{} // of online schema changes: the second one, which gives the shadow the table's name
	for i, r := range list {
		ours := mysql.ConfiguredName(ss.src.opts.Tables, ss.src.caseless, r.from.String())
		if ours == "" {
			continue
		}
		half := slices.IndexFunc(list, func(o renaming) bool {
			of := shadow.FindStringSubmatch(o.from.table)
			return of != nil && o.from.database == r.from.database && o.to == r.from && strings.EqualFold(of[1], r.from.table)
		})
		if half >= i && !halves[half] {
			halves[half] = true
			ss.src.log.Warn("an online schema change has replaced the table: its copies of rows are not published again", slog.String("table", ours))
			continue
		}
		replaced := false // by a table that the loop below finds
		for j, o := range list {
			replaced = replaced || j > i && !halves[j] && mysql.ConfiguredName(ss.src.opts.Tables, ss.src.caseless, o.to.String()) == ours
		}
		if !replaced {
			return content("table_renamed", "rename it back (the relay stops there too, and then only the position is to be moved)",
				"table %s is renamed to %s: what is written to it under another name is in the binlog as that of another table, and not published", ours, r.to)
		}
	}
	for i, r := range list {
		if ours := mysql.ConfiguredName(ss.src.opts.Tables, ss.src.caseless, r.to.String()); ours != "" && !halves[i] {
			_, behind := ss.location()
			return cdc.Stop(cdc.ClassRuntime, "table_renamed", fmt.Errorf(
				"table %s is renamed to %s: what was written to it before is in the binlog as that of another table, and not published", r.from, ours),
				"publish what consumers miss of it with `cdc-relay repair --since TIME`, unless that was done after "+
					time.UnixMicro(ss.tx.micros).UTC().Format(time.RFC3339)+", and move the position past it with `cdc-relay position set "+behind+"`")
		}
	}
	return nil
}
