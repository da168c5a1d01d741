package cdctest

import "github.com/cdc-relay/cdc-relay/internal/testenv"

// OpenPostgres returns an existing database with public.outbox, publication and slot.
func OpenPostgres(server *testenv.PostgresServer, name string) *Postgres {
	return &Postgres{Server: server, name: name, PayloadColumn: "payload"}
}
