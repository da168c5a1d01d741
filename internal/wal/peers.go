package wal

import (
	"context"
	"fmt"
	"hash/crc32"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// The relays of a slot tell each other their names: the ordinary session of each has its role, a checksum of the slot and its name
// in application_name, which PostgreSQL cuts after 63 bytes. The sessions of its own role are shown to everybody.
const (
	leads   = "leader"
	standby = "standby"
)

// meet tells the other relays this one's role, and notes them. Nothing depends on it: without an answer there is no news.
func (s *Source) meet(ctx context.Context, conn *pgx.Conn, role string) {
	if s.opts.Name == "" || s.opts.Temporary {
		return
	}
	slot := fmt.Sprintf(" %08x ", crc32.ChecksumIEEE([]byte(s.opts.Slot)))
	rows, err := conn.Query(ctx, `SELECT a.application_name, COALESCE(host(a.client_addr), '')
		FROM set_config('application_name', $1, false) LEFT JOIN pg_stat_activity a
		ON a.application_name LIKE $2 AND a.usename = current_user AND a.pid <> pg_backend_pid()`,
		"cdc-relay "+role+slot+s.opts.Name, "cdc-relay %"+slot+"%")
	if err != nil {
		return
	}
	type seen struct{ Name, Address *string }
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[seen])
	if err != nil {
		return
	}
	for _, other := range list {
		if other.Name == nil { // there is none
			continue
		}
		said, name, _ := strings.Cut(*other.Name, slot)
		if strings.HasPrefix(s.opts.Name, name) { // a session of this relay that ends
			continue
		}
		s.peers.Saw(time.Now(), cdc.Peer{Leads: strings.HasSuffix(said, leads), Name: name, Address: *other.Address})
	}
}
