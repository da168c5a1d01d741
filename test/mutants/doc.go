// Mutants breaks the relay on purpose, one defect at a time, and runs the tests that must notice it. A mutant that survives is
// a hole in the suite.
//
// A mutant is a replacement of a piece of a source file. `go build -overlay` reads the changed copy in place of the file, so
// the relay's own code holds no sabotage, not even behind a build tag, and nothing of it can be shipped. The piece must occur
// exactly once: TestMutantsApply fails when the code has moved on, and whoever changed it adapts the mutant.
//
//	go run ./test/mutants [-run REGEXP]
package main
