package binlog

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"time"

	"github.com/go-mysql-org/go-mysql/client"
	gomysql "github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"
	"github.com/go-sql-driver/mysql"
	"github.com/google/uuid"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

const (
	// heartbeatPeriod is how often an idle server says that it is there.
	heartbeatPeriod = 5 * time.Second
	// silence is how long a server may say nothing: three heartbeats.
	silence = 3 * heartbeatPeriod
)

// dumpStart is where a server begins to send.
type dumpStart struct {
	set gtidSet // behind these transactions
	at  hint    // and, if it names a file, there
}

// open asks the server for its binlog, and waits until it begins to send.
func (s *Source) open(ctx context.Context, cfg *mysql.Config, from dumpStart, serverID uint32) (*session, error) {
	conn, err := connectReplication(ctx, cfg)
	if err != nil {
		return nil, err
	}
	server, err := s.identify(conn)
	switch {
	case err != nil:
	case from.at.file != "" && from.at.server != server: // what stands before the place there need not be in the set
		err = fmt.Errorf("the place in the binlog is one of server %q, and this is %q", from.at.server, server)
	default:
		err = s.request(conn, cfg, from, serverID)
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	// From here on packets are cut where they were read: the driver has read none of them yet.
	ss := newSession(s, conn.Conn.Conn)
	ss.server = server
	if err := ss.await(ctx); err != nil {
		ss.close()
		return nil, err
	}
	return ss, nil
}

// request introduces us as a replica and asks for the binlog.
func (s *Source) request(conn *client.Conn, cfg *mysql.Config, from dumpStart, serverID uint32) error {
	for _, sql := range s.introduction(serverID, from) {
		if _, err := conn.Execute(sql); err != nil {
			if code, said := number(err); code != 0 {
				return s.dumpError(code, said)
			}
			return fmt.Errorf("prepare to read binlog: %w", err)
		}
	}
	if err := conn.WritePacket(s.registration(conn, cfg, serverID)); err != nil {
		return fmt.Errorf("register as a replica: %w", err)
	}
	if _, err := conn.ReadOKPacket(); err != nil {
		if code, said := number(err); code != 0 {
			return s.dumpError(code, said)
		}
		return fmt.Errorf("register as a replica: %w", err)
	}
	conn.ResetSequence()
	if err := conn.WritePacket(dumpRequest(from, serverID, s.toEnd)); err != nil {
		return fmt.Errorf("ask for binlog: %w", err)
	}
	return nil
}

// introduction sets what the server should know. The UUID is made of a configured server id, so that the server
// recognises two that have the same, and is random otherwise.
func (s *Source) introduction(serverID uint32, from dumpStart) []string {
	id := uuid.New()
	if s.opts.ServerID != 0 {
		id = uuid.NewSHA1(uuid.NameSpaceOID, fmt.Appendf(nil, "cdc-relay/%d", serverID))
	}
	sqls := []string{
		// We know checksums, and the first event need not have one.
		"SET @master_binlog_checksum = 'NONE', @source_binlog_checksum = 'NONE'",
		fmt.Sprintf("SET @master_heartbeat_period = %d, @source_heartbeat_period = %[1]d", heartbeatPeriod.Nanoseconds()),
		fmt.Sprintf("SET @slave_uuid = '%s', @replica_uuid = '%[1]s'", id),
	}
	if s.flavor == cdc.MariaDB {
		// 4 is MARIA_SLAVE_CAPABILITY_GTID: we understand its GTID events.
		sqls = append(sqls, "SET @mariadb_slave_capability = 4")
	}
	if s.flavor == cdc.MariaDB && from.at.file == "" {
		sqls = append(sqls, "SET @slave_gtid_strict_mode = 1", fmt.Sprintf("SET @slave_connect_state = '%s'", from.set))
	}
	return sqls
}

// registration is COM_REGISTER_SLAVE: SHOW REPLICAS lists us by it.
func (s *Source) registration(conn *client.Conn, cfg *mysql.Config, serverID uint32) []byte {
	conn.ResetSequence()
	host, _ := os.Hostname()
	p := make([]byte, 4, 64) // room for the packet's header
	p = append(p, gomysql.COM_REGISTER_SLAVE)
	p = binary.LittleEndian.AppendUint32(p, serverID)
	for _, text := range []string{host, cfg.User, ""} {
		text = text[:min(len(text), 60)]
		p = append(append(p, byte(len(text))), text...)
	}
	p = binary.LittleEndian.AppendUint16(p, 0) // port
	return binary.LittleEndian.AppendUint64(p, 0)
}

// dumpRequest is COM_BINLOG_DUMP_GTID with the set, or MariaDB's COM_BINLOG_DUMP, whose position is in
// @slave_connect_state or the request itself. With toEnd, which is BINLOG_DUMP_NON_BLOCK, the server ends the stream where it would wait for more.
func dumpRequest(from dumpStart, serverID uint32, toEnd bool) []byte {
	var flags uint16
	if toEnd {
		flags = 1
	}
	p := make([]byte, 4, 64)
	at := max(4, from.at.offset) // a file begins with four bytes that are no event
	set, ok := from.set.(mysqlSet)
	if !ok {
		p = append(p, gomysql.COM_BINLOG_DUMP)
		p = binary.LittleEndian.AppendUint32(p, at)
		p = binary.LittleEndian.AppendUint16(p, flags)
		return append(binary.LittleEndian.AppendUint32(p, serverID), from.at.file...)
	}
	p = append(p, gomysql.COM_BINLOG_DUMP_GTID)
	p = binary.LittleEndian.AppendUint16(p, flags)
	p = binary.LittleEndian.AppendUint32(p, serverID)
	p = append(binary.LittleEndian.AppendUint32(p, uint32(len(from.at.file))), from.at.file...)
	p = binary.LittleEndian.AppendUint64(p, uint64(at))
	encoded := set.Encode()
	p = binary.LittleEndian.AppendUint32(p, uint32(len(encoded)))
	return append(p, encoded...)
}

// await reads until the server has sent an event that tells nothing yet, or refused.
func (ss *session) await(ctx context.Context) error {
	deadline, _ := ctx.Deadline()
	if err := ss.conn.SetReadDeadline(deadline); err != nil {
		return fmt.Errorf("read binlog: %w", err)
	}
	packet, err := ss.packet()
	for packet == nil && err == nil {
		if err = ss.fill(); err == nil {
			packet, err = ss.packet()
		}
	}
	if err != nil {
		return err
	}
	e, err := ss.event(packet)
	if err != nil {
		return err
	}
	switch e.kind() { //nolint:exhaustive // the rest is refused
	case replication.ROTATE_EVENT: // the server names its file first
		return nil
	case replication.FORMAT_DESCRIPTION_EVENT: // or it has none that a client may know; see inInnoDB
		return ss.format(e)
	}
	return fmt.Errorf("read binlog: it begins with an event of kind %d", e.kind())
}
