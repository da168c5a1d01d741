// Package outbox is the contract of the outbox table, the one thing that writers and the relay share:
// which columns a row has and what they mean, which header names are the relay's own, and the SQL that
// makes the table and what the relay needs around it. It is a leaf: it imports nothing of ours, talks to
// no database and reads no clock.
//
// A [Layout] says which column plays which [Role]. [Native] is the layout of the table that
// [PostgresTable] and [MySQLTable] make; [Mapped] is for tables that other software made. [PostgresTable],
// [PostgresSetup] and [PostgresTeardown], and their twins for MySQL and MariaDB, return a [Script] or steps
// of them; a Script knows nothing of its dialect, and [Script.Files] renders it for people or for a
// migration tool.
package outbox
