// Suite runs the tests of all modules through gotestsum, as `make test` and `make flaky` do.
//
// A test that fails is run again alone, at most twice. If it passes then, the run passes and the test is listed as FLAKY with
// the output of its failure: the machine may have been late. Some failures no late machine causes, and no rerun excuses
// them:
//
//	a violation       an event lost, repeated, reordered, ...: tests append it to a file, see cdctest.Violation
//	outside a test    TestMain, a leaked goroutine, a build, a time limit: there is no test to run again
//	a data race, a failed property: they depend on a schedule or a seed, which the rerun does not repeat
//
// gotestsum runs and prints the tests. Whether a run passes is decided here, from its JSON file: gotestsum takes a package whose
// TestMain failed, and data races, for passed once the rerun passes (its issues 442 and 423).
//
//	go run ./test/suite [-race]                                              every test, once
//	go run ./test/suite -all -runs 5                                         every test, five times, while all cores are busy, without reruns
//	go run ./test/suite -runs 20 -run '^TestKeyOfRoute$' ./internal/router   the tests of these packages that match the pattern
package main
