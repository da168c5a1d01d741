package binlog

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/finding"
	"github.com/cdc-relay/cdc-relay/internal/mysql"
)

// statements123 are those of the relay's that MariaDB 12.3 knows by its documentation while its binlog is in InnoDB: BINLOG_GTID_POS and
// everything else about files is not among them.
func statements123() map[string][][]any {
	vars := [][]any{{"Variable_name", "Value"}}
	for name, value := range map[string]string{
		"version": "12.3.2-MariaDB", "log_bin": "ON", "binlog_format": "ROW", "binlog_row_image": "FULL", "binlog_row_metadata": "FULL",
		"sync_binlog": "0", "innodb_flush_log_at_trx_commit": "1", "binlog_expire_logs_seconds": "2592000", "log_slave_updates": "ON",
		"server_id": "1", "binlog_storage_engine": "innodb",
	} {
		vars = append(vars, []any{name, value})
	}
	known := statements80()
	for pattern := range known {
		if strings.Contains(pattern, "SHOW GLOBAL VARIABLES") || strings.Contains(pattern, "gtid_executed") || strings.Contains(pattern, "REPLICA") || strings.Contains(pattern, "collations") {
			delete(known, pattern)
		}
	}
	known[`^SHOW GLOBAL VARIABLES WHERE Variable_name IN \(`] = vars
	known[`^SELECT @@GLOBAL.gtid_binlog_pos, COALESCE\(`] = [][]any{{"pos", "engine"}, {"0-1-9", "innodb"}}
	known[`FROM information_schema.collation_character_set_applicability WHERE`] = [][]any{{"id", "name"}, {"45", "utf8mb4"}}
	known[`^SELECT COUNT\(\*\) FROM information_schema.processlist WHERE info IN`] = [][]any{{"stuck"}, {"0"}}
	known[`^SHOW BINLOG STATUS$`] = [][]any{{"Binlog_Do_DB", "Binlog_Ignore_DB"}, {"", ""}}
	known[`^SHOW ALL SLAVES STATUS$`] = [][]any{{"Slave_IO_State"}}
	known[`^SELECT CONCAT_WS\(`] = [][]any{{"identity"}, {"1 db 3306"}}
	known[`^SHOW SLAVE HOSTS$`] = [][]any{{"Server_id", "Host", "Port", "Master_id"}}
	known[`^SELECT GET_LOCK\('cdc-relay.mariadb.shop', 1\), CONNECTION_ID\(\)$`] = [][]any{{"locked", "id"}, {"1", "5"}}
	known[`^SET @slave_`] = nil
	known[`^SET @mariadb_slave_capability`] = nil
	return known
}

// A binlog that MariaDB keeps in InnoDB needs no sync_binlog. It is asked for no files, and gives none to hints; and which transactions
// are visible is not asked, because the question for it is not tested.
func TestBinlogInInnoDB(t *testing.T) {
	handler, address := serve(t, "12.3.2-MariaDB", statements123())
	handler.noFiles = true
	o := Options{Options: mysql.Options{DSN: func(context.Context) (string, error) { return "relay@tcp(" + address + ")/shop", nil }, Tables: []string{"shop.outbox"}}, StartFrom: Current}
	var log bytes.Buffer
	s := New(o, slog.New(slog.NewTextHandler(&log, nil)), prometheus.NewRegistry())
	if _, from, err := s.Acquire(t.Context(), none); err != nil || from != "0-1-9" {
		t.Errorf("%s, %v", from, err)
	}
	s.session.place = place{at: 400, fileEnd: fileEnd{"binlog.000001", 500}}
	if h := s.session.hint(); h != (hint{}) {
		t.Errorf("a hint: %+v", h)
	}
	stored := &Source{inInnoDB: true, hint: hint{"1 db 3306", "binlog.000001", 400, 0}}
	if seen, err := stored.followHint(t.Context(), nil, nil, nil); seen.session != nil || err != nil { // it would need the address
		t.Errorf("an earlier hint is followed: %v", err)
	}
	s.Release(t.Context())
	if n := strings.Count(log.String(), "the relay is not tested"); n != 1 {
		t.Errorf("%d warnings:\n%s", n, &log)
	}
	warnings := func(o Options) (list []string) {
		found, _ := Check(t.Context(), o, none)
		for _, f := range found {
			if f.Severity == finding.Warn || f.Severity == finding.Fail {
				list = append(list, f.Text)
			}
		}
		return list
	}
	if list := warnings(o); len(list) != 1 || !strings.Contains(list[0], "the relay is not tested") {
		t.Errorf("check finds %q", list)
	}
	if len(handler.unknown) > 0 {
		t.Errorf("statements that such a server does not know: %q", handler.unknown)
	}
	o.WaitUntilVisible = true
	if list := warnings(o); !slices.ContainsFunc(list, func(text string) bool { return strings.Contains(text, "which transactions are visible") }) {
		t.Errorf("check of a relay that waits finds %q", list)
	}
	_, _, err := New(o, slog.New(slog.DiscardHandler), prometheus.NewRegistry()).Acquire(t.Context(), none)
	if cdc.ReasonOf(err) != "binlog_storage_engine" || cdc.Fix(err) != "set source.mysql.wait_until_visible: false" {
		t.Errorf("%v", err)
	}
}
