module github.com/cdc-relay/cdc-relay/inbox

go 1.25.0

require github.com/cdc-relay/cdc-relay/writer v0.1.0

require github.com/google/uuid v1.6.0 // indirect
