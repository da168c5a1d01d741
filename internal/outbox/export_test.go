package outbox

import "time"

// PostgresPartition returns the name of the partition for the day (UTC) of at.
func PostgresPartition(table Name, at time.Time) Name {
	return Name{Schema: PartitionSchema, Table: partitionPrefix(table, len("20060102")) + at.UTC().Format("20060102")}
}

// PostgresDefaultPartition returns the name of the DEFAULT partition.
func PostgresDefaultPartition(table Name) Name {
	return Name{Schema: PartitionSchema, Table: partitionPrefix(table, len("20060102")) + "default"}
}
