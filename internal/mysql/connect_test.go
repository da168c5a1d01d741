package mysql

import (
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// What only a person can change about an account or a connection string ends a start at once; a limit that others use up does not.
func TestErrorsOfAccounts(t *testing.T) {
	for number, tt := range map[uint16]struct{ reason, fix string }{
		1862: {"password", "ALTER USER 'o''k'@'%' IDENTIFIED BY"},
		1820: {"password", "ALTER USER 'o''k'@'%' IDENTIFIED BY"},
		3118: {"account_locked", "ALTER USER 'o''k'@'%' ACCOUNT UNLOCK"},
		4151: {"account_locked", "ALTER USER 'o''k'@'%' ACCOUNT UNLOCK"},
		1193: {"parameter", "remove it"},
		1203: {"", "MAX_USER_CONNECTIONS"},
		1226: {"", "MAX_USER_CONNECTIONS"},
	} {
		err := connectError(&mysql.MySQLError{Number: number, Message: "said"}, &mysql.Config{User: "o'k"})
		if cdc.ReasonOf(err) != tt.reason || !strings.Contains(cdc.Fix(err), tt.fix) {
			t.Errorf("%d: %s: %s", number, cdc.ReasonOf(err), cdc.Explain(err))
		}
	}
}

func TestReadThatTakesTooLong(t *testing.T) {
	for _, number := range []uint16{3024, 1969} {
		if err := (&Database{}).Rows(RowOptions{RowAction: cdc.RowAction{Pending: "sent = 0"}}).failed("read rows", &mysql.MySQLError{Number: number}); cdc.Fix(err) != "create an index for sent = 0" {
			t.Errorf("%d: %s", number, cdc.Explain(err))
		}
	}
}
