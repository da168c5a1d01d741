module github.com/cdc-relay/cdc-relay/test

go 1.26.0

require github.com/cdc-relay/cdc-relay v0.0.0-00010101000000-000000000000

replace (
	github.com/cdc-relay/cdc-relay => ../
	github.com/cdc-relay/cdc-relay/writer => ../writer
	github.com/cdc-relay/cdc-relay/writer/pgxwriter => ../writer/pgxwriter
)
