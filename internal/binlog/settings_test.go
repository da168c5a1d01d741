package binlog

import (
	"fmt"
	"testing"
)

func TestWrongOnReplica(t *testing.T) {
	for name, tt := range map[string]struct {
		vars variables
		want []string
	}{
		"as it should be":             {variables{"log_replica_updates": "ON", "replica_preserve_commit_order": "ON", "replica_parallel_workers": "4"}, nil},
		"order lost":                  {variables{"log_replica_updates": "ON", "replica_preserve_commit_order": "OFF", "replica_parallel_workers": "4"}, []string{"replica_preserve_commit_order"}},
		"one worker keeps the order":  {variables{"replica_preserve_commit_order": "OFF", "replica_parallel_workers": "1"}, nil},
		"both names":                  {variables{"log_replica_updates": "OFF", "log_slave_updates": "OFF", "replica_preserve_commit_order": "OFF", "slave_preserve_commit_order": "OFF"}, []string{"log_replica_updates", "replica_preserve_commit_order"}},
		"MySQL 8.0.22":                {variables{"log_slave_updates": "ON", "slave_preserve_commit_order": "OFF", "slave_parallel_workers": "4"}, []string{"slave_preserve_commit_order"}},
		"MySQL 8.0.22, as it comes":   {variables{"log_slave_updates": "ON", "slave_preserve_commit_order": "OFF", "slave_parallel_workers": "0"}, nil},
		"MariaDB keeps the order":     {variables{"log_slave_updates": "ON"}, nil},
		"MariaDB without its updates": {variables{"log_slave_updates": "OFF"}, []string{"log_slave_updates"}},
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
