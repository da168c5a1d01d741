package publisher

// fifo is a queue in a ring. The zero value is empty.
type fifo[T any] struct {
	ring []T // its length is zero or a power of two
	head int
	n    int
}

// keepRing is how many elements an empty queue keeps room for, so that a burst does not hold its memory: each partition has a queue.
const keepRing = 64

func (f *fifo[T]) len() int { return f.n }

// at returns the i-th element from the front.
func (f *fifo[T]) at(i int) *T { return &f.ring[(f.head+i)&(len(f.ring)-1)] }

func (f *fifo[T]) push(v T) {
	if f.n == len(f.ring) {
		f.grow()
	}
	f.n++
	*f.at(f.n - 1) = v
}

func (f *fifo[T]) grow() {
	ring := make([]T, max(16, 2*len(f.ring)))
	k := copy(ring, f.ring[f.head:])
	copy(ring[k:], f.ring[:f.head])
	f.ring, f.head = ring, 0
}

// pop takes the front element away. The queue must not be empty.
func (f *fifo[T]) pop() T {
	var zero T
	v := f.ring[f.head]
	f.ring[f.head] = zero
	f.head = (f.head + 1) & (len(f.ring) - 1)
	f.n--
	if f.n == 0 && len(f.ring) > keepRing {
		f.ring, f.head = nil, 0
	}
	return v
}
