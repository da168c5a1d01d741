// Package statement reads what a statement in the binlog names and changes from its text and status variables. It is pure.
package statement
