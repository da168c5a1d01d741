package binlog

import (
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"
)

// A position holds what was added before its batch was handed on, and nothing that came later.
func TestMarks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		empty, err := parseSet(MySQL, "")
		if err != nil {
			t.Fatal(err)
		}
		var m marks
		m.start(MySQL, empty, gtid{})
		sid := uuid.MustParse(serverA)
		var added, asked uint64
		upto := []uint64{0} // by seq
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0, 1:
				added++
				m.seen(gtid{sid: sid, number: added})
			case 2:
				if m.news() != (upto[len(upto)-1] < added) {
					t.Fatal("news are wrong")
				}
				upto = append(upto, added)
				m.set(uint64(len(upto)-1), gtid{sid: sid, number: added})
			case 3:
				asked = rapid.Uint64Range(asked, uint64(len(upto)-1)).Draw(t, "seq")
				want := empty.clone()
				for n := uint64(1); n <= upto[asked]; n++ {
					want.add(gtid{sid: sid, number: n})
				}
				p, ok := m.progress(asked)
				if !ok || string(p.Position) != want.String() {
					t.Fatalf("position %q, want %q", p.Position, want)
				}
			}
		}
	})
}
