// Package outbox defines the outbox table, which writers and the relay share: its columns and their meaning, the header
// names that the relay reserves, and the SQL that creates the table and the relay's objects. It connects to no database
// and reads no clock.
//
// A [Layout] maps each [Role] to a column. [Native] is the layout of the table that [PostgresTable] and [MySQLTable]
// create; [Mapped] is for tables of other software. [PostgresTable], [PostgresSetup] and [PostgresTeardown], and their
// counterparts for MySQL and MariaDB, return a [Script] or [Steps]. [Script.Files] renders a Script for people or for a
// migration tool.
package outbox
