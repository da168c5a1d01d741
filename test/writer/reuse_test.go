package writer_test

import (
	"strings"
	"testing"
)

// TestPreparedStatementsAreFew: drivers that cache prepared statements keep one for each text, on each
// connection, and so does the server.
func TestPreparedStatementsAreFew(t *testing.T) {
	db := newDatabase(t, server, plain("public.outbox"))
	for _, w := range ways() {
		if !strings.HasSuffix(w.name, "cache_statement") {
			continue
		}
		t.Run(w.name, func(t *testing.T) {
			tx := w.open(t, db, "").begin(t)
			for n := 1; n <= 300; n++ {
				if err := tx.Append(t.Context(), newEvents(n)...); err != nil {
					t.Fatal(err)
				}
			}
			const raise = `DO $$ BEGIN
  IF (SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE 'INSERT%') <> 9 THEN RAISE 'not nine'; END IF;
END $$`
			if err := tx.Exec(t.Context(), raise); err != nil {
				t.Error(err)
			}
		})
	}
}
