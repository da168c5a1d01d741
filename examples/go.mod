module github.com/cdc-relay/cdc-relay/examples

go 1.26.0

require (
	github.com/IBM/sarama v1.61.1
	github.com/cdc-relay/cdc-relay/inbox v0.1.0
	github.com/cdc-relay/cdc-relay/inbox/kgoinbox v0.0.0-00010101000000-000000000000
	github.com/cdc-relay/cdc-relay/writer v0.1.0
	github.com/cdc-relay/cdc-relay/writer/pgxwriter v0.0.0-00010101000000-000000000000
	github.com/go-sql-driver/mysql v1.10.1
	github.com/google/uuid v1.6.0
	github.com/jackc/pgx/v5 v5.12.0
	github.com/twmb/franz-go v1.22.2
)

require (
	filippo.io/edwards25519 v1.2.0 // indirect
	github.com/davecgh/go-spew v1.1.1 // indirect
	github.com/eapache/go-resiliency v1.7.0 // indirect
	github.com/hashicorp/go-uuid v1.0.3 // indirect
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/jackc/puddle/v2 v2.2.3 // indirect
	github.com/jcmturner/aescts/v2 v2.0.0 // indirect
	github.com/jcmturner/dnsutils/v2 v2.0.0 // indirect
	github.com/jcmturner/gofork v1.7.6 // indirect
	github.com/jcmturner/gokrb5/v8 v8.4.4 // indirect
	github.com/jcmturner/rpc/v2 v2.0.3 // indirect
	github.com/klauspost/compress v1.20.3 // indirect
	github.com/pierrec/lz4/v4 v4.1.33 // indirect
	github.com/rcrowley/go-metrics v0.0.0-20250401214520-65e299d6c5c9 // indirect
	github.com/twmb/franz-go/pkg/kmsg v1.15.0 // indirect
	golang.org/x/crypto v0.57.0 // indirect
	golang.org/x/net v0.59.0 // indirect
	golang.org/x/sync v0.23.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
	golang.org/x/text v0.42.0 // indirect
)

replace (
	github.com/cdc-relay/cdc-relay/inbox => ../inbox
	github.com/cdc-relay/cdc-relay/inbox/kgoinbox => ../inbox/kgoinbox
	github.com/cdc-relay/cdc-relay/writer => ../writer
	github.com/cdc-relay/cdc-relay/writer/pgxwriter => ../writer/pgxwriter
)
