package binlog

import (
	"context"
	"database/sql"
	"fmt"
	"hash/crc32"
	"strings"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// The relays of a lock know each other from the server's process list, which shows an account its own sessions without any right. A
// standby has its name in the statement that waits for the lock. Of the leader, whose session is idle, only the address is known.

// standbyMark begins the comment in the statement of a standby.
func standbyMark(lock string) string {
	return fmt.Sprintf("standby %08x ", crc32.ChecksumIEEE([]byte(lock)))
}

// comment names a standby in its statement.
func (s *Source) comment(lock string) string {
	if s.opts.Name == "" {
		return ""
	}
	return "/* cdc-relay " + standbyMark(lock) + s.opts.Name + " */ "
}

// meet notes the other relays. Nothing depends on it: without an answer there is no news.
func (s *Source) meet(ctx context.Context, db *sql.DB, lock string, leading bool) {
	if s.opts.Name == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lockPing)
	defer cancel()
	holder, err := lockHolder(ctx, db, lock)
	if err != nil {
		return
	}
	// Not information_schema.processlist, which fails on MySQL while a statement with bytes that are no text runs.
	rows, err := db.QueryContext(ctx, "SHOW PROCESSLIST")
	if err != nil {
		return
	}
	defer func() { _ = rows.Close() }()
	columns, err := rows.Columns()
	if err != nil {
		return
	}
	var (
		id         int64
		host, info sql.NullString
		to         = make([]any, len(columns)) // MariaDB has one more
	)
	for i, name := range columns {
		switch strings.ToLower(name) {
		case "id":
			to[i] = &id
		case "host":
			to[i] = &host
		case "info": // the first 100 characters
			to[i] = &info
		default:
			to[i] = new(sql.RawBytes)
		}
	}
	for rows.Next() && rows.Scan(to...) == nil {
		_, name, _ := strings.Cut(info.String, standbyMark(lock))
		name, _, _ = strings.Cut(name, " ")
		address, _, _ := strings.Cut(host.String, ":")
		if name != "" && name != s.opts.Name || name == "" && id == holder && !leading {
			s.peers.Saw(time.Now(), cdc.Peer{Leads: id == holder, Name: name, Address: address})
		}
	}
	_ = rows.Err() // what was read counts
}
