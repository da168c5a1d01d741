package testenv

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"
)

// startMySQLReplica starts a GTID replica of a server of the same flavor. It copies no data, so the primary must still have
// its whole binlog. The replica logs what it applies to its own binlog.
func startMySQLReplica(ctx context.Context, primary *MySQLServer, o MySQLOptions) (*MySQLServer, error) {
	o.Flavor = primary.Flavor
	settings := map[string]string{"read_only": "ON"}
	maps.Copy(settings, o.Settings)
	o.Settings = settings
	m, err := StartMySQL(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := m.Follow(ctx, primary); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// Follow makes the server a replica of primary from its own GTIDs, and waits until it has what primary has now.
func (m *MySQLServer) Follow(ctx context.Context, primary *MySQLServer) error {
	return m.FollowAt(ctx, primary, primary.Addr())
}

// FollowAt is Follow through an address that leads to primary, as a proxy's.
func (m *MySQLServer) FollowAt(ctx context.Context, primary *MySQLServer, addr string) error {
	port := addr[strings.LastIndexByte(addr, ':')+1:]
	statements := "CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT=%s, SOURCE_USER='root'," +
		" SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1, SOURCE_SSL=0, SOURCE_CONNECT_RETRY=1, SOURCE_RETRY_COUNT=86400; START REPLICA"
	if m.Flavor == MariaDBFlavor {
		statements = "CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT=%s, MASTER_USER='root'," +
			" MASTER_USE_GTID=slave_pos, MASTER_CONNECT_RETRY=1; START SLAVE"
	}
	if err := m.Exec(ctx, "", fmt.Sprintf(statements, port)); err != nil {
		return fmt.Errorf("follow %s: %w", primary.Addr(), err)
	}
	gtids, err := primary.GTIDs(ctx)
	if err != nil {
		return err
	}
	return m.AwaitGTIDs(ctx, gtids)
}

// GTIDs returns all GTIDs that the server has ever logged.
func (m *MySQLServer) GTIDs(ctx context.Context) (string, error) {
	if m.Flavor == MariaDBFlavor {
		return m.Value(ctx, "SELECT @@global.gtid_binlog_pos")
	}
	return m.Value(ctx, "SELECT REPLACE(@@global.gtid_executed, '\\n', '')")
}

// AwaitGTIDs waits until a replica has applied gtids.
func (m *MySQLServer) AwaitGTIDs(ctx context.Context, gtids string) error {
	wait := "SELECT WAIT_FOR_EXECUTED_GTID_SET(?, 1)"
	if m.Flavor == MariaDBFlavor {
		wait = "SELECT MASTER_GTID_WAIT(?, 1)"
	}
	for {
		behind, err := m.Value(ctx, wait, gtids) // returns after a second at the latest
		if err == nil && behind == "0" {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s on replica %s: %w\n%s", gtids, m.Addr(), errors.Join(ctx.Err(), err), m.LogTail(10))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Promote applies everything that a replica has received and makes it a primary.
func (m *MySQLServer) Promote(ctx context.Context) error {
	status, received, reset := "SHOW REPLICA STATUS", "Retrieved_Gtid_Set", "STOP REPLICA; RESET REPLICA ALL"
	stop := "STOP REPLICA IO_THREAD"
	if m.Flavor == MariaDBFlavor {
		status, received, reset = "SHOW SLAVE STATUS", "Gtid_IO_Pos", "STOP SLAVE; RESET SLAVE ALL"
		stop = "STOP SLAVE IO_THREAD"
	}
	if err := m.Exec(ctx, "", stop); err != nil {
		return err
	}
	gtids, err := m.Column(ctx, status, received)
	if err != nil {
		return err
	}
	if len(gtids) != 1 {
		return fmt.Errorf("promote %s: it is a replica of %d servers, not of one", m.Addr(), len(gtids))
	}
	if err := m.AwaitGTIDs(ctx, gtids[0]); err != nil {
		return err
	}
	return m.Exec(ctx, "", reset+"; SET GLOBAL read_only = OFF")
}
