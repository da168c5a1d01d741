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
	mark := standbyMark(lock)
	// The mark is in two parts, so that no relay takes this statement for that of a standby.
	rows, err := db.QueryContext(ctx, `SELECT id = IS_USED_LOCK(?), host, COALESCE(LEFT(info, 200), '') FROM information_schema.processlist
		WHERE id = IS_USED_LOCK(?) OR info LIKE CONCAT('%/* cdc-relay ', ?, '%')`, lock, lock, mark)
	if err != nil {
		return
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var (
			leads      sql.NullBool
			host, info string
		)
		if err := rows.Scan(&leads, &host, &info); err != nil {
			return
		}
		_, name, _ := strings.Cut(info, mark)
		name, _, _ = strings.Cut(name, " ")
		host, _, _ = strings.Cut(host, ":")
		if name != s.opts.Name && (name != "" || !leading) {
			s.peers.Saw(time.Now(), cdc.Peer{Leads: leads.Bool, Name: name, Address: host})
		}
	}
	_ = rows.Err() // what was read counts
}
