// Package mysql is what the relay asks MySQL and MariaDB by SQL: it connects, reads the catalog, checks and sets up what a run needs, reads
// tables, maintains their partitions, and deletes old rows. The form of a position, a GTID set, is here too, because a check, a purge and a
// repair compare positions. Package binlog reads the binlog.
package mysql
