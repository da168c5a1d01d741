package cdctest

import "github.com/cdc-relay/cdc-relay/internal/testenv"

// OpenMySQL returns an existing database with the table outbox.
func OpenMySQL(server *testenv.MySQLServer, name string) *MySQL {
	return &MySQL{Server: server, name: name, PayloadColumn: "payload"}
}
