// Package postgres is what the relay asks PostgreSQL by SQL: it connects, reads the catalog, checks and sets up what a run needs, reads
// tables, maintains their partitions, and deletes old rows. The form of a position, an LSN, is here too, because a check, a purge and a
// repair compare positions. Package wal reads the WAL.
package postgres
