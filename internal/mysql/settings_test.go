package mysql

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

func TestWrongOnReplica(t *testing.T) {
	for name, tt := range map[string]struct {
		vars Variables
		want []string
	}{
		"as it should be":             {Variables{"log_replica_updates": "ON", "replica_preserve_commit_order": "ON", "replica_parallel_workers": "4"}, nil},
		"order lost":                  {Variables{"log_replica_updates": "ON", "replica_preserve_commit_order": "OFF", "replica_parallel_workers": "4"}, []string{"replica_preserve_commit_order"}},
		"one worker keeps the order":  {Variables{"replica_preserve_commit_order": "OFF", "replica_parallel_workers": "1"}, nil},
		"both names":                  {Variables{"log_replica_updates": "OFF", "log_slave_updates": "OFF", "replica_preserve_commit_order": "OFF", "slave_preserve_commit_order": "OFF"}, []string{"log_replica_updates", "replica_preserve_commit_order"}},
		"MySQL 8.0.22":                {Variables{"log_slave_updates": "ON", "slave_preserve_commit_order": "OFF", "slave_parallel_workers": "4"}, []string{"slave_preserve_commit_order"}},
		"MySQL 8.0.22, as it comes":   {Variables{"log_slave_updates": "ON", "slave_preserve_commit_order": "OFF", "slave_parallel_workers": "0"}, nil},
		"MariaDB keeps the order":     {Variables{"log_slave_updates": "ON"}, nil},
		"MariaDB without its updates": {Variables{"log_slave_updates": "OFF"}, []string{"log_slave_updates"}},
	} {
		var names []string
		for _, s := range tt.vars.wrongOnReplica() {
			names = append(names, s.Name)
		}
		if fmt.Sprint(names) != fmt.Sprint(tt.want) {
			t.Errorf("%s: %v, want %v", name, names, tt.want)
		}
	}
}

// What was written while a setting kept it out of the binlog is behind no position.
func TestFixesOfWhatTheBinlogLacks(t *testing.T) {
	for name, says := range map[string]string{"log_bin": "", "gtid_mode": "on all replicas too before the next, the last once ONGOING_ANONYMOUS_TRANSACTION_COUNT is 0", "log_replica_updates": "", "log_slave_updates": ""} {
		if fix := (Setting{Name: name}).fix(cdc.MariaDB); !strings.Contains(fix, says) || !strings.HasSuffix(fix, "with `cdc-relay repair --since TIME`") {
			t.Errorf("%s: %s", name, fix)
		}
	}
}

// No test has a server of MySQL 8.0.
func TestUntested(t *testing.T) {
	for version, says := range map[string]string{"8.0.22": "MySQL 8.0.22 has all that the relay needs", "8.4.0": "", "9.7.0": "", "10.11.14-MariaDB-log": ""} {
		vars := Variables{"version": version}
		text, fix := vars.Untested()
		if !strings.HasPrefix(text, says) || (text == "") != (says == "") || (fix == "") != (says == "") {
			t.Errorf("%s: %q, %q", version, text, fix)
		}
	}
}

// MariaDB 12.3 may keep its binlog in InnoDB.
func TestBinlogInInnoDB(t *testing.T) {
	err := Variables{"version": "12.3.2-MariaDB", "binlog_storage_engine": "innodb"}.Problem(&Options{})
	if cdc.ReasonOf(err) != "binlog_storage_engine" || !strings.Contains(cdc.Fix(err), "remove it from the server's configuration") || !strings.HasSuffix(cdc.Fix(err), "`cdc-relay repair --since TIME`") {
		t.Errorf("%v", err)
	}
}
