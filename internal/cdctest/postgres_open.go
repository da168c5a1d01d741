package cdctest

import "github.com/cdc-relay/cdc-relay/internal/testenv"

// OpenPostgres is a database that others have made and set up, with public.outbox.
func OpenPostgres(server *testenv.PostgresServer, name string) *Postgres {
	return &Postgres{Server: server, name: name, PayloadColumn: "payload"}
}
