package main

import (
	"github.com/cdc-relay/cdc-relay/internal/cdc"
	"github.com/cdc-relay/cdc-relay/internal/retention"
)

func (m *mysql) partitions(connString, bool, cdc.Loader) (retention.Tables, error) {
	return nil, usage("run `cdc-relay schema apply` from a timer", "the partitions of MySQL and MariaDB are not maintained yet")
}
