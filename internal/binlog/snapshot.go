package binlog

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/visibility"
)

// snapshot is MariaDB's answer: the place in the binlog up to which transactions are committed in InnoDB. The server moves it and
// commits a group of transactions under one lock (LOCK_commit_ordered), under which it also reads it for us.
//
// A new file is an exception, because the server begins one between writing a group into the old file and committing it:
//
//  1. The file is the new one at once, while the last two groups in the old file may still wait, as for a semi-sync replica.
//  2. A group that is committed after that sets the offset only: until the first commit in the new file, it is one of the old file.
//
// Source: MYSQL_BIN_LOG::open and trx_group_commit_leader of MariaDB, sql/log.cc.
type snapshot struct {
	at fileEnd
	// settled: every transaction in earlier files is committed.
	settled bool
	// exact: the offset is one of the file.
	exact bool
}

// Shows implements [visibility.Answer].
func (s snapshot) Shows(tx committed) bool {
	if tx.at.file == s.at.file {
		return s.exact && tx.at.end <= s.at.end
	}
	n := tx.at.number()
	return s.settled && n > 0 && n < s.at.number()
}

// freshFile is what is known of the snapshot's file.
type freshFile struct {
	last           fileEnd // the last answer's
	next           uint64  // where to look on for the checkpoint
	page           int     // how many events were looked at last
	settled, exact bool
}

const snapshotQuery = "SELECT %s," +
	" MAX(IF(VARIABLE_NAME = 'BINLOG_SNAPSHOT_FILE', VARIABLE_VALUE, NULL))," +
	" CAST(MAX(IF(VARIABLE_NAME = 'BINLOG_SNAPSHOT_POSITION', VARIABLE_VALUE, NULL)) AS UNSIGNED)," +
	" CAST(MAX(IF(VARIABLE_NAME = 'RPL_SEMI_SYNC_MASTER_WAIT_SESSIONS', VARIABLE_VALUE, '0')) AS UNSIGNED)" +
	" FROM information_schema.SESSION_STATUS" +
	" WHERE VARIABLE_NAME IN ('BINLOG_SNAPSHOT_FILE', 'BINLOG_SNAPSHOT_POSITION', 'RPL_SEMI_SYNC_MASTER_WAIT_SESSIONS')"

// askMariaDB asks for the snapshot, with the identity in one statement. A connection that commits, or begins a transaction with a
// consistent snapshot, would be told its own place: this one does neither.
func (w *witness) askMariaDB(ctx context.Context) (visibility.Answer[committed], error) {
	found, err := w.query(ctx, fmt.Sprintf(snapshotQuery, identity(cdc.MariaDB)))
	if err != nil {
		return nil, err
	}
	if err := w.same(found); err != nil {
		return nil, err
	}
	var at fileEnd
	if at.file, err = found.GetString(0, 1); err != nil {
		return nil, err
	}
	if at.end, err = found.GetUint(0, 2); err != nil {
		return nil, err
	}
	waiting, err := found.GetUint(0, 3)
	if err != nil {
		return nil, err
	}
	f := &w.fresh
	if f.last.file != at.file {
		*f = freshFile{next: binlogHeader}
	}
	// While commits wait, what follows can hang as they do, and the server keeps a thread for each such question.
	goesOn := waiting == 0 || f.last.file == at.file && f.last != at
	f.last = at
	switch {
	case !goesOn:
	case !f.settled:
		err = w.settle(ctx)
	case !f.exact: // settled before this answer: no transaction of the old file sets the offset any more
		err = w.compare(ctx)
	}
	return snapshot{at, f.settled, f.exact}, err
}

const (
	// binlogHeader is the offset of the first event.
	binlogHeader = 4
	// firstPage is how many events are looked at in the first statement of a file, in which they are as a rule. Each has twice as many as
	// the one before, up to lastPage: the server reads events whole, however large, and commits nothing meanwhile.
	firstPage, lastPage = 8, 128
	// searchTime bounds a search, in which the stream is not served.
	searchTime = time.Second
)

// settle looks for the event by which the server says that all transactions in earlier files are durable in InnoDB. It
// follows at most a second after the beginning of the file, behind what was written to it until then.
func (w *witness) settle(ctx context.Context) error {
	for began := time.Now(); time.Since(began) < searchTime; {
		if more, err := w.page(ctx); err != nil || !more {
			return err
		}
	}
	return nil
}

// page looks at some events, and returns whether there are more.
func (w *witness) page(ctx context.Context) (more bool, err error) {
	f := &w.fresh
	f.page = min(max(firstPage, 2*f.page), lastPage)
	found, err := w.query(ctx, fmt.Sprintf("SHOW BINLOG EVENTS IN '%s' FROM %d LIMIT %d", strings.ReplaceAll(f.last.file, "'", "''"), f.next, f.page))
	if err != nil {
		return false, err
	}
	for row := range found.Values {
		kind, err := found.GetStringByName(row, "Event_type")
		if err != nil {
			return false, err
		}
		info, err := found.GetStringByName(row, "Info")
		if err != nil {
			return false, err
		}
		if f.next, err = found.GetUintByName(row, "Pos"); err != nil {
			return false, err
		}
		if f.settled = kind == "Binlog_checkpoint" && info == f.last.file; f.settled {
			return false, nil
		}
	}
	return len(found.Values) == f.page, nil
}

// compare finds out whether the offset is one of the file: one of the file before is behind its end, because a file is nearly full
// when the next one begins, or it was the last one before FLUSH BINARY LOGS.
func (w *witness) compare(ctx context.Context) error {
	found, err := w.query(ctx, "SHOW MASTER STATUS")
	if err != nil {
		return err
	}
	file, err := found.GetStringByName(0, "File")
	if err != nil {
		return err
	}
	end, err := found.GetUintByName(0, "Position")
	if err != nil {
		return err
	}
	w.fresh.compared(file, end)
	return nil
}

// compared takes in where the binlog ends.
func (f *freshFile) compared(file string, end uint64) {
	f.exact = file == f.last.file && f.last.end <= end
}
