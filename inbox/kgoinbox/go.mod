module github.com/cdc-relay/cdc-relay/inbox/kgoinbox

go 1.26.0

require (
	github.com/cdc-relay/cdc-relay/inbox v0.1.0
	github.com/cdc-relay/cdc-relay/writer v0.1.0
	github.com/twmb/franz-go v1.22.2
	github.com/twmb/franz-go/pkg/kmsg v1.15.0
)

require (
	github.com/google/uuid v1.6.0 // indirect
	github.com/klauspost/compress v1.20.3 // indirect
	github.com/pierrec/lz4/v4 v4.1.33 // indirect
)
