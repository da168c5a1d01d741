module github.com/cdc-relay/cdc-relay/examples

go 1.26.0

require (
	github.com/google/uuid v1.6.0
	github.com/jackc/pgx/v5 v5.12.0
	github.com/twmb/franz-go v1.22.2
)

require (
	filippo.io/edwards25519 v1.2.0 // indirect
	github.com/jackc/puddle/v2 v2.2.3 // indirect
	golang.org/x/sync v0.22.0 // indirect
)

require (
	github.com/cdc-relay/cdc-relay/inbox v0.1.0
	github.com/cdc-relay/cdc-relay/inbox/kgoinbox v0.0.0-00010101000000-000000000000
	github.com/cdc-relay/cdc-relay/writer v0.1.0
	github.com/go-sql-driver/mysql v1.10.1
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/klauspost/compress v1.20.3 // indirect
	github.com/pierrec/lz4/v4 v4.1.33 // indirect
	github.com/twmb/franz-go/pkg/kmsg v1.15.0 // indirect
	golang.org/x/text v0.41.0 // indirect
)

replace (
	github.com/cdc-relay/cdc-relay/inbox => ../inbox
	github.com/cdc-relay/cdc-relay/inbox/kgoinbox => ../inbox/kgoinbox
	github.com/cdc-relay/cdc-relay/writer => ../writer
)
