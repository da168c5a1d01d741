package publisher

import (
	"context"
	"errors"
	"time"

	"github.com/IBM/sarama"
)

var errDropped = errors.New("the connection was given up")

// request is one produce request: a batch for each of some partitions of one broker.
type request struct {
	s       *sender
	batches []*batch
	bytes   int
	at      time.Time // when it was handed over
	produce sarama.ProduceRequest
}

// sender is one connection to a broker, from dialling to closing. Every request that it is given comes
// back to the loop exactly once, as a settled event.
type sender struct {
	addr string
	mail *mailbox
	// requests has room for all that the loop lets be in flight, so that the loop never waits.
	requests chan *request
	// drop ends the connection at once, whatever it is doing.
	drop context.CancelFunc

	// The loop's own view.
	link   *link
	up     bool           // connected
	out    fifo[*request] // not answered
	proven bool           // has answered
}

// connected is posted when a sender has dialled.
type connected struct {
	s   *sender
	err error
}

// settled is posted for each request: with the broker's response, or with the reason why there is none.
type settled struct {
	req *request
	res *sarama.ProduceResponse
	err error
}

// run ends when the loop drops the sender, and not before: a request may be on its way to it until then.
func (s *sender) run(ctx context.Context, d *dialer) {
	b, err := d.open(ctx, s.addr, d.opts.RequestTimeout)
	s.mail.post(connected{s, err})
	if err == nil {
		s.serve(ctx, b)
		// Close waits for the goroutine that reads responses, and it answers what is still open.
		_ = b.Close()
	}
	s.refuse(ctx)
}

// serve sends until the connection is dropped or fails. AsyncProduce encodes and writes: it blocks as
// long as the broker does not read.
func (s *sender) serve(ctx context.Context, b *sarama.Broker) {
	for {
		select {
		case <-ctx.Done():
			return
		case req := <-s.requests:
			for _, batch := range req.batches {
				batch.encode()
			}
			err := b.AsyncProduce(&req.produce, func(res *sarama.ProduceResponse, err error) {
				s.mail.post(settled{req, res, err})
			})
			if err != nil {
				s.mail.post(settled{req, nil, err})
			}
			if err != nil && !isEncoding(err) {
				return // a part of the request may have been written: nothing can follow it
			}
		}
	}
}

// refuse returns what can no longer be sent.
func (s *sender) refuse(ctx context.Context) {
	for {
		select {
		case req := <-s.requests:
			s.mail.post(settled{req, nil, errDropped})
		case <-ctx.Done():
			if len(s.requests) == 0 {
				return
			}
		}
	}
}

// isEncoding reports whether a request did not leave because sarama cannot encode it.
func isEncoding(err error) bool {
	var encoding sarama.PacketEncodingError
	return errors.As(err, &encoding)
}
