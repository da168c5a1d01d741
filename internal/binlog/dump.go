package binlog

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-mysql-org/go-mysql/client"
	gomysql "github.com/go-mysql-org/go-mysql/mysql"
	driver "github.com/go-sql-driver/mysql"
	"github.com/google/uuid"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/mysql"
)

const (
	// heartbeatPeriod is how often an idle server says that it is there.
	heartbeatPeriod = 5 * time.Second
	// silence is how long a server may say nothing: three heartbeats.
	silence = 3 * heartbeatPeriod
)

// dumpStart is where a server begins to send.
type dumpStart struct {
	set mysql.Set // behind these transactions
	at  hint      // and, if it names a file, there
}

// dialer asks a server for its binlog, as a replica would.
type dialer struct {
	cfg     *driver.Config
	flavor  cdc.Flavor
	account string // the server's name for us
	// serverID is the ID of the replica that we are to the server. Of two readers with the same it ends one.
	serverID uint32
}

// newDialer chooses a server ID in the upper half, which only by chance another reader has: then it ends one of them, and the next attempt
// chooses again.
func newDialer(cfg *driver.Config, f cdc.Flavor, account string) *dialer {
	return &dialer{cfg, f, account, 1<<31 | rand.Uint32()} //nolint:gosec // it need only differ
}

// open opens a session of the source's own.
func (s *Source) open(ctx context.Context, d *dialer, from dumpStart) (*session, error) {
	c, err := d.open(ctx, from)
	if err != nil {
		return nil, newSession(s, c).unlessDamaged(err)
	}
	return newSession(s, c), nil
}

// open asks the server for its binlog, and waits until it begins to send.
func (d *dialer) open(ctx context.Context, from dumpStart) (*dump, error) {
	conn, err := mysql.ConnectReplication(ctx, d.cfg)
	if err != nil {
		return nil, err
	}
	server, err := d.identify(conn)
	switch {
	case err != nil:
	case from.at.file != "" && from.at.server != server: // what stands before the place there need not be in the set
		err = fmt.Errorf("the place in the binlog is one of server %q, and this is %q", from.at.server, server)
	default:
		err = d.request(conn, from)
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	// From here on packets are cut where they were read: the driver has read none of them yet.
	c := newDump(conn.Conn.Conn, server, d)
	if err := c.await(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return c, nil
}

// identify returns the identity of the server that will send the binlog.
func (d *dialer) identify(conn *client.Conn) (string, error) {
	found, err := conn.Execute("SELECT " + identity(d.flavor))
	if err != nil {
		return "", fmt.Errorf("ask for the server's identity: %w", err)
	}
	return found.GetString(0, 0)
}

// request introduces us as a replica and asks for the binlog.
func (d *dialer) request(conn *client.Conn, from dumpStart) error {
	for _, sql := range d.introduction(from) {
		if _, err := conn.Execute(sql); err != nil {
			if code, said := mysql.ErrorNumber(err); code != 0 {
				return d.dumpError(code, said)
			}
			return fmt.Errorf("prepare to read binlog: %w", err)
		}
	}
	if err := conn.WritePacket(d.registration(conn)); err != nil {
		return fmt.Errorf("register as a replica: %w", err)
	}
	if _, err := conn.ReadOKPacket(); err != nil {
		if code, said := mysql.ErrorNumber(err); code != 0 {
			return d.dumpError(code, said)
		}
		return fmt.Errorf("register as a replica: %w", err)
	}
	conn.ResetSequence()
	if err := conn.WritePacket(d.dumpRequest(from)); err != nil {
		return fmt.Errorf("ask for binlog: %w", err)
	}
	return nil
}

// introduction sets what the server should know.
func (d *dialer) introduction(from dumpStart) []string {
	sqls := []string{
		// We know checksums, and the first event need not have one.
		"SET @master_binlog_checksum = 'NONE', @source_binlog_checksum = 'NONE'",
		fmt.Sprintf("SET @master_heartbeat_period = %d, @source_heartbeat_period = %[1]d", heartbeatPeriod.Nanoseconds()),
		fmt.Sprintf("SET @slave_uuid = '%s', @replica_uuid = '%[1]s'", uuid.New()),
	}
	if d.flavor == cdc.MariaDB {
		// 4 is MARIA_SLAVE_CAPABILITY_GTID: we understand its GTID events.
		sqls = append(sqls, "SET @mariadb_slave_capability = 4")
	}
	if d.flavor == cdc.MariaDB && from.at.file == "" {
		sqls = append(sqls, "SET @slave_gtid_strict_mode = 1", fmt.Sprintf("SET @slave_connect_state = '%s'", from.set))
	}
	return sqls
}

// registration is COM_REGISTER_SLAVE: SHOW REPLICAS lists us by it.
func (d *dialer) registration(conn *client.Conn) []byte {
	conn.ResetSequence()
	host, _ := os.Hostname()
	p := make([]byte, 4, 64) // room for the packet's header
	p = append(p, gomysql.COM_REGISTER_SLAVE)
	p = binary.LittleEndian.AppendUint32(p, d.serverID)
	for _, text := range []string{host, d.cfg.User, ""} {
		text = text[:min(len(text), 60)]
		p = append(append(p, byte(len(text))), text...)
	}
	p = binary.LittleEndian.AppendUint16(p, 0) // port
	return binary.LittleEndian.AppendUint64(p, 0)
}

// dumpRequest is COM_BINLOG_DUMP_GTID with the set, or MariaDB's COM_BINLOG_DUMP, whose position is in
// @slave_connect_state or the request itself.
func (d *dialer) dumpRequest(from dumpStart) []byte {
	const flags = 0 // the server waits for more at the end of the binlog
	p := make([]byte, 4, 64)
	at := max(4, from.at.offset) // a file begins with four bytes that are no event
	set, ok := from.set.(mysql.IntervalSet)
	if !ok {
		p = append(p, gomysql.COM_BINLOG_DUMP)
		p = binary.LittleEndian.AppendUint32(p, at)
		p = binary.LittleEndian.AppendUint16(p, flags)
		return append(binary.LittleEndian.AppendUint32(p, d.serverID), from.at.file...)
	}
	p = append(p, gomysql.COM_BINLOG_DUMP_GTID)
	p = binary.LittleEndian.AppendUint16(p, flags)
	p = binary.LittleEndian.AppendUint32(p, d.serverID)
	p = append(binary.LittleEndian.AppendUint32(p, uint32(len(from.at.file))), from.at.file...)
	p = binary.LittleEndian.AppendUint64(p, uint64(at))
	encoded := set.Encode()
	p = binary.LittleEndian.AppendUint32(p, uint32(len(encoded)))
	return append(p, encoded...)
}

// Error numbers of MariaDB; source: its error message reference.
const (
	erGtidNotInBinlog = 1955
	eeFileNotFound    = 29 // of a file of its binlog
)

// dumpError maps the server's refusal to send its binlog, or to go on with it.
func (d *dialer) dumpError(code uint16, said string) error {
	unreadable := code == gomysql.ER_MASTER_FATAL_ERROR_READING_BINLOG && !isTransient(said)
	switch {
	case strings.Contains(said, "same server_uuid") || strings.Contains(said, "same server_id"):
		return fmt.Errorf("another replica reads the binlog under our server id, choosing another: %s (%d)", said, code)
	case strings.Contains(said, "diverged"): // MariaDB, whose later transactions have higher numbers than the position
		return cdc.PositionError("binlog_gap", sinceThen,
			"server cannot send its binlog from the position on (%s, %d): it has another history", said, code)
	case code == erGtidNotInBinlog, unreadable && (strings.Contains(said, "GTID") || strings.Contains(said, "purged") || strings.Contains(said, "gtid")):
		return cdc.PositionError("binlog_gap", "publish what it held from the outbox table, and move the position, with `cdc-relay repair`; then keep binlogs for longer",
			"server cannot send its binlog from the position on (%s, %d): it was purged, or the server has another history", said, code)
	case unreadable && strings.Contains(said, "anonymous"):
		return cdc.Stop(cdc.ClassRuntime, "gtid_mode", fmt.Errorf("server cannot send a transaction without a GTID, which was committed while gtid_mode was not ON (%s, %d)", said, code),
			mysql.FixGTIDMode+", then "+nextFile)
	case unreadable, code == eeFileNotFound:
		return cdc.Stop(cdc.ClassRuntime, "log_unreadable", fmt.Errorf("server cannot send its binlog from the position on (%s, %d), and will not by itself", said, code),
			"correct what it says; where the binlog is damaged or lost, "+nextFile)
	case code == gomysql.ER_SPECIFIC_ACCESS_DENIED_ERROR, code == gomysql.ER_ACCESS_DENIED_ERROR:
		return cdc.ConfigError("no_replication", mysql.GrantLog(d.flavor, d.account), "user may not read the binlog (%s)", said)
	}
	return fmt.Errorf("read binlog: %s (%d)", said, code)
}

// isTransient reports whether a server that cannot send its binlog may be able to after a while.
func isTransient(said string) bool {
	said = strings.ToLower(said)
	return slices.ContainsFunc([]string{"memory allocation", "out of memory", "failed to load", "shutdown", "shutting down"}, func(part string) bool { return strings.Contains(said, part) })
}
