package commands

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// cutting is a proxy to a server that ends a connection on which that has sent a text.
func cutting(t *testing.T, to, text string) (addr string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testenv.Must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer client.Close()
				server, err := net.Dial("tcp", to)
				if err != nil {
					return
				}
				defer server.Close()
				go func() { _, _ = io.Copy(server, client) }()
				for b := make([]byte, 64<<10); ; {
					n, err := server.Read(b)
					at := bytes.Index(b[:n], []byte(text))
					if at >= 0 {
						n = at
					}
					if _, werr := client.Write(b[:n]); err != nil || werr != nil || at >= 0 {
						return
					}
				}
			}()
		}
	}()
	return listener.Addr().String()
}

// A stream that ends within the same transaction each time is a problem that names it, and what is printed goes past it.
func TestStreamThatEndsWithinATransaction(t *testing.T) {
	t.Parallel()
	onMySQL(t, func(s *site) {
		s.markedTable("varchar(36)")
		s.replace(s.config[strings.Index(s.config, "    write_back:"):strings.Index(s.config, "source:")], "").setup()
		direct := s.config
		s.replace(s.addr(), cutting(t, s.addr(), "unsent"))
		relay := s.start()
		url := relay.leading()
		s.newJob("a", "")
		s.saves(url, "a")
		s.newJob("unsent", "")
		s.newJob("z", "")
		s.knowsProblem(url, "cdc-relay position set")
		said := fmt.Sprint(s.status(url).Problems)
		t.Log(said)
		relay.stops()
		s.config = direct
		s.follows(0, "", said, "repair")
		s.follows(0, "", said, "position set")
		relay = s.start()
		url = relay.leading()
		s.newJob("behind", "")
		s.saves(url, "behind")
		relay.stops()
		published := map[string]bool{}
		for _, r := range s.consume(s.name, 4) {
			for _, h := range r.Headers {
				published[string(h.Value)] = published[string(h.Value)] || h.Key == "ce_id"
			}
		}
		if !published["unsent"] {
			cdctest.Violation(t, cdctest.Lost, "the event of the transaction is not published: %v", published)
		}
	})
}
