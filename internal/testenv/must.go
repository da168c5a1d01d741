package testenv

// Must fails the test if err is not nil. tb is a testing.TB or a rapid.TB.
func Must(tb interface {
	Helper()
	Fatal(args ...any)
}, err error,
) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
