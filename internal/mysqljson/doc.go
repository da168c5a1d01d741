// Package mysqljson prints JSON documents in MySQL's binary form, and the numbers and times that they have in common with columns, as the
// server does. It imports no other package of the project.
package mysqljson
