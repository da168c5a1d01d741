package publisher_test

import (
	"testing"
)

func TestEveryBatchIsAnsweredOnce(t *testing.T) {
	c := newCluster(t, 3, 8)
	s := open(t, options(c))
	const batches, size = 50, 20
	for i := range batches {
		s.send(t, numbered(i*size, size, 13)...)
	}
	s.send(t) // nothing to publish: answered all the same
	s.answered(t, batches+1)
	if n := len(read(t, c.ListenAddrs(), "t", batches*size)); n != batches*size {
		t.Errorf("%d records, want %d", n, batches*size)
	}
}
