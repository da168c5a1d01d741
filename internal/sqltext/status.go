package sqltext

import (
	"bytes"
	"encoding/binary"
	"strings"
)

// The bits of sql_mode under which a statement is read in another way; source: sql/system_variables.h, MariaDB's sql/sql_class.h.
const (
	modeANSIQuotes         = 1 << 2
	modeIgnoreSpace        = 1 << 3
	modeMSSQL              = 1 << 10   // MariaDB: names in brackets
	modesOfOthers          = 0x1f << 8 // ORACLE, MSSQL and others
	modeNoBackslashEscapes = 1 << 20

	oddModes = modeANSIQuotes | modeIgnoreSpace | modesOfOthers | modeNoBackslashEscapes
)

// Settings returns whether a statement was read with the usual sql_mode, and the character set of its client.
func Settings(vars []byte) (usual bool, client uint64) {
	usual = sqlMode(vars, oddModes)&oddModes == 0
	eachStatus(vars, func(kind byte, value []byte) {
		if kind == statusCharsets {
			client = uint64(binary.LittleEndian.Uint16(value))
		}
	})
	return usual, client
}

// sqlMode returns the session's sql_mode, or what stands for one that the variables do not hold.
func sqlMode(vars []byte, absent uint64) uint64 {
	eachStatus(vars, func(kind byte, value []byte) {
		if kind == statusMode {
			absent = binary.LittleEndian.Uint64(value)
		}
	})
	return absent
}

// usualQuotes is a statement that the usual sql_mode would read as the session's has read it, as far as names and strings go.
func usualQuotes(text string, variables []byte) string {
	mode := sqlMode(variables, 0)
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

// The kinds of status variables that may stand before the databases, by what follows the byte of the kind; source:
// libs/mysql/binlog/event/statement_events.h.
const (
	statusDatabases   = 12  // their number, and each with a zero behind it
	tooManyDatabases  = 254 // so they are not listed
	statusInvoker     = 11  // two texts
	statusCatalog     = 2   // a text and a zero
	statusTimeZone    = 5   // a text
	statusCatalogNZ   = 6   // a text
	statusCollations  = 131 // of MariaDB 11.2 and newer: their number, and each in four bytes
	statusMode        = 1   // sql_mode
	statusCharsets    = 4   // of the client, and more
	statusUnknownSize = -1
)

// statusSize is how many bytes of a fixed number follow.
func statusSize(kind byte) int {
	switch kind {
	case 0, 10: // flags, the length on the first server
		return 4
	case statusMode, 9: // sql_mode, tables of an update
		return 8
	case 3: // auto_increment
		return 4
	case statusCharsets:
		return 6
	case 7, 8: // the names of months, the database's collation
		return 2
	case 13: // microseconds
		return 3
	}
	return statusUnknownSize
}

// Databases reads the databases that MySQL lists in a statement's status variables.
func Databases(vars []byte) (names []string, known bool) {
	eachStatus(vars, func(kind byte, value []byte) {
		if kind == statusDatabases {
			names, known = databasesIn(value[0], value[1:])
		}
	})
	return names, known
}

// eachStatus calls f for the variables up to the databases, which are last and come with all that follows, or up to one that is
// not known.
func eachStatus(vars []byte, f func(kind byte, value []byte)) {
	for len(vars) > 1 {
		kind := vars[0]
		size := statusSize(kind)
		switch kind {
		case statusDatabases:
			size = len(vars) - 1
		case statusCatalog:
			size = int(vars[1]) + 2
		case statusTimeZone, statusCatalogNZ:
			size = int(vars[1]) + 1
		case statusCollations:
			size = 4*int(vars[1]) + 1
		case statusInvoker:
			size = int(vars[1]) + 1
			if size+1 < len(vars) {
				size += int(vars[1+size]) + 1
			}
		}
		if size < 0 || 1+size > len(vars) {
			return
		}
		f(kind, vars[1:1+size])
		vars = vars[1+size:]
	}
}

func databasesIn(count byte, list []byte) (names []string, known bool) {
	if count == 0 || count == tooManyDatabases {
		return nil, false
	}
	for range count {
		name, rest, found := bytes.Cut(list, []byte{0})
		if !found || len(name) == 0 {
			return nil, false
		}
		names, list = append(names, string(name)), rest
	}
	return names, true
}
