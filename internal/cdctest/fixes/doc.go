// Package fixes finds the fixes that the product prints and that move something: a position, a slot, a checkpoint, a partition or a
// letter. A user follows such a fix word by word, so a test does too, and counts: nothing lost, nothing repeated beyond the bound.
//
// [Printed] reads the product's code and returns them. A fix is what is passed as the parameter fix of a function, stands in a field
// Fix, or is logged as "fix", and a line that a command prints if it names one of the commands. Its name is the package, the
// function and the reason of the error: "wal.resolve/slot_ahead".
//
// A test declares in its comment, or beside a row of its table, which moves of which fix it follows:
//
//	//follows:wal.resolve/slot_ahead repair, position reset
//
// It takes the command from what the relay printed, with [github.com/cdc-relay/cdc-relay/internal/cdctest.Printed], and never
// types it itself. [Declared] reads these comments, [Missing] lists what no test follows, and [Table] is the list in
// docs/maintainers/fixes.md.
package fixes
