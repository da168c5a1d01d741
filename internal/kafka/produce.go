package kafka

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"syscall"

	"github.com/IBM/sarama"
)

// Conn is a connection to a broker.
type Conn struct {
	*sarama.Broker
	socket *ctxConn
}

// Produce sends a produce request whose topics are encoded already: req has none, and its version is 3 to 8, which
// encode them alike and last. topics is not used after the return, so its memory can be used again, whereas sarama
// makes each request in memory of its own, in two passes.
func (c *Conn) Produce(req *sarama.ProduceRequest, topics []byte, done sarama.ProduceCallback) error {
	c.socket.topics = topics
	defer func() { c.socket.topics = nil }()
	return c.AsyncProduce(req, done) // writes before it returns
}

// HungUp reports whether the broker has closed the connection. sarama notices that with the next request only. It reads nothing.
func (c *Conn) HungUp() bool {
	conn := c.socket.Conn
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return false
	}
	hungUp := false
	_ = raw.Control(func(fd uintptr) { // it fails once the connection is closed on this side
		n, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		hungUp = err == nil && n == 0 || errors.Is(err, syscall.ECONNRESET)
	})
	return hungUp
}

// smallRequest is up to which size topics are copied behind the head of their request.
const smallRequest = 16 << 10

// Write replaces the empty array at the end of sarama's produce request by the topics.
func (c *ctxConn) Write(b []byte) (int, error) {
	const sizeField, arrayLength, keyProduce = 4, 4, 0
	if c.topics == nil || binary.BigEndian.Uint16(b[sizeField:]) != keyProduce { // SASL may come first
		return c.Conn.Write(b)
	}
	head := b[sizeField : len(b)-arrayLength]
	c.head = binary.BigEndian.AppendUint32(c.head[:0], uint32(len(head)+len(c.topics)))
	c.head = append(c.head, head...)
	rest := c.topics
	if len(rest) <= smallRequest { // one packet
		c.head, rest = append(c.head, rest...), nil
	}
	if _, err := c.Conn.Write(c.head); err != nil {
		return 0, err
	}
	if len(rest) > 0 {
		if _, err := c.Conn.Write(rest); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}
