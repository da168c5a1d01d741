// Package coverage says which faults the tests cover. A test declares the rows of the fault matrix in its comment:
//
//	// SIGKILL at random moments under load, repeatedly.
//	//
//	//covers:all 1 events
//	func TestKillUnderLoad(t *testing.T) {
//
// "all", "postgres", "binlogs" (MySQL and MariaDB), "mysql" or "mariadb" are the databases on which it runs. Then come the
// numbers of rows and what the test counts; see kinds. A test in exactly-once mode adds "exactly-once", one in both modes
// "both", and so does the test of a source or of the router alone, which do not know how their rows are delivered.
//
// [Declared] reads these comments, [Missing] lists rows without a test, and [Table] is the table in test/docs/faults.md. What
// the tests of the built binary declare is compared with what they did: a rig appends a line to the file that [EnvFile]
// names for everything it checks, and [Unproven] finds declarations without one.
package coverage
