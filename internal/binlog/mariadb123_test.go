package binlog

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/mysql"
)

// MariaDB 12.3 may keep its binlog in InnoDB. A start and check name the setting.
func TestBinlogInInnoDB(t *testing.T) {
	vars := [][]any{{"Variable_name", "Value"}}
	for name, value := range map[string]string{
		"version": "12.3.2-MariaDB", "log_bin": "ON", "binlog_format": "ROW", "binlog_row_image": "FULL", "binlog_row_metadata": "FULL",
		"sync_binlog": "1", "innodb_flush_log_at_trx_commit": "1", "binlog_expire_logs_seconds": "2592000", "log_slave_updates": "ON",
		"server_id": "1", "binlog_storage_engine": "innodb",
	} {
		vars = append(vars, []any{name, value})
	}
	known := statements80()
	for pattern := range known {
		if strings.Contains(pattern, "SHOW GLOBAL VARIABLES") {
			delete(known, pattern)
		}
	}
	known[`^SHOW GLOBAL VARIABLES WHERE Variable_name IN \(`] = vars
	_, address := serve(t, "12.3.2-MariaDB", known)
	o := Options{Options: mysql.Options{DSN: func(context.Context) (string, error) { return "relay@tcp(" + address + ")/shop", nil }, Tables: []string{"shop.outbox"}}, FromNow: true}
	_, _, err := New(o, slog.New(slog.DiscardHandler), prometheus.NewRegistry()).Acquire(t.Context(), none)
	if cdc.ReasonOf(err) != "binlog_storage_engine" || !strings.Contains(cdc.Fix(err), "remove it from the server's configuration") || !strings.HasSuffix(cdc.Fix(err), "`cdc-relay repair --since TIME`") {
		t.Errorf("%v", err)
	}
	found, _ := Check(t.Context(), o, none)
	if !slices.ContainsFunc(found, func(f cdc.Finding) bool {
		return f.Severity == cdc.SeverityFail && strings.Contains(f.Text, "binlog_storage_engine is innodb")
	}) {
		t.Errorf("check finds %+v", found)
	}
}
