package binlog

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/binlog"
	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// A lost binlog file stops the source: waiting does not fix it.
//
//covers:binlogs 19 messages both
func TestStopAtLostBinlogFile(t *testing.T) {
	onEach(t, func(d *database) {
		t := d.t
		d.simple()
		d.exec("FLUSH BINARY LOGS")
		d.session(insert(1))
		status := map[string]string{"mysql": "SHOW BINARY LOG STATUS", "mariadb": "SHOW MASTER STATUS"}[d.flavor]
		files, err := d.server.Column(t.Context(), status, "File")
		if err != nil || len(files) != 1 {
			t.Fatalf("%v, %v", files, err)
		}
		base, err := d.server.Value(t.Context(), "SELECT @@log_bin_basename")
		if err != nil {
			t.Fatal(err)
		}
		from := d.position()
		d.session(insert(2))
		d.exec("FLUSH BINARY LOGS")
		d.session(insert(3))
		path := filepath.Join(filepath.Dir(base), files[0])
		if err := os.Rename(path, path+".lost"); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := os.Rename(path+".lost", path); err != nil {
				t.Error(err)
			}
		}()
		stored := d.stored(cdc.Position(from))
		s := d.source(binlog.Options{})
		_, _, err = s.Acquire(t.Context(), stored)
		if err == nil {
			q := newQueue()
			q.confirm = s.Confirm
			err = s.Run(t.Context(), q)
		}
		var stop *cdc.StopError
		if !errors.As(err, &stop) || stop.Reason != "log_unreadable" {
			t.Errorf("%v, want log_unreadable", err)
		}
	})
}
