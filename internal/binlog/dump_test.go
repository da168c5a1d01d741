package binlog

import (
	"errors"
	"testing"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// What a server says when it cannot send its binlog: only what passes by itself is tried again.
func TestDumpErrors(t *testing.T) {
	for said, want := range map[string]string{
		"log event entry exceeded max_allowed_packet; Increase max_allowed_packet on source":                            "log_unreadable",
		"Could not find first log file name in binary log index file":                                                   "log_unreadable",
		"binlog truncated in the middle of event; consider out of disk space on source":                                 "log_unreadable",
		"Cannot replicate because the source purged required binary logs.":                                              "binlog_gap",
		"Error: connecting slave requested to start from GTID 0-1-3, which is not in the master's binlog":               "binlog_gap",
		"memory allocation failed reading log event":                                                                    "",
		"Out of memory while looking for GTID position in binlog":                                                       "",
		"Failed to load replication slave GTID state from table mysql.gtid_slave_pos":                                   "",
		"Server shutdown in progress":                                                                                   "",
		"A replica with the same server_uuid/server_id as this replica has connected to the source; the first event ''": "",
	} {
		err := (&dialer{flavor: cdc.MySQL}).dumpError(gomysql.ER_MASTER_FATAL_ERROR_READING_BINLOG, said)
		var stop *cdc.StopError
		if errors.As(err, &stop) != (want != "") || want != "" && stop.Reason != want {
			t.Errorf("%s: %v, want %q", said, err, want)
		}
	}
}
