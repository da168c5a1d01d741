module github.com/cdc-relay/cdc-relay/test

go 1.26.0

require (
	github.com/cdc-relay/cdc-relay v0.0.0-00010101000000-000000000000
	github.com/cdc-relay/cdc-relay/writer v0.0.0-00010101000000-000000000000
	github.com/cdc-relay/cdc-relay/writer/pgxwriter v0.0.0-00010101000000-000000000000
)

require (
	github.com/google/uuid v1.6.0 // indirect
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/jackc/pgx/v5 v5.12.0 // indirect
	github.com/lib/pq v1.12.3 // indirect
	golang.org/x/text v0.42.0 // indirect
	pgregory.net/rapid v1.3.0 // indirect
)

replace (
	github.com/cdc-relay/cdc-relay => ../
	github.com/cdc-relay/cdc-relay/writer => ../writer
	github.com/cdc-relay/cdc-relay/writer/pgxwriter => ../writer/pgxwriter
)
