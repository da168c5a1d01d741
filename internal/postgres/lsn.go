package postgres

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pglogrepl"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// LSN is a byte offset in the WAL; 0 is none.
type LSN = pglogrepl.LSN

// FormatLSN renders an LSN as 16 hex digits: it sorts as text, and Redis cannot round it.
func FormatLSN(l LSN) cdc.Position {
	if l == 0 {
		return ""
	}
	return cdc.Position(fmt.Sprintf("%016X", uint64(l)))
}

// ParsePosition reads a position of this source: 16 hex digits, or the X/X form that PostgreSQL prints.
func ParsePosition(p cdc.Position) (cdc.Position, error) {
	l, err := ParseLSN(p)
	return FormatLSN(l), err
}

// DisplayPosition renders a position as PostgreSQL prints it (16/B374D848); "" for none.
func DisplayPosition(p cdc.Position) string {
	l, err := ParseLSN(p)
	if err != nil || l == 0 {
		return string(p)
	}
	return l.String()
}

// ParseLSN reads a position of either form; "" is 0.
func ParseLSN(p cdc.Position) (LSN, error) {
	if p == "" {
		return 0, nil
	}
	if strings.Contains(string(p), "/") {
		l, err := pglogrepl.ParseLSN(string(p))
		if err != nil {
			return 0, fmt.Errorf("position %q is not an LSN such as 16/B374D848: %w", p, err)
		}
		return l, nil
	}
	v, err := strconv.ParseUint(string(p), 16, 64)
	if err != nil || len(p) != 16 {
		return 0, fmt.Errorf("position %q is not an LSN (16/B374D848 or 16 hex digits)", p)
	}
	return LSN(v), nil
}
