//go:build linux && !race

package socket

import "net"

// Direct returns conn with reads and writes that do not tell Go's scheduler of the system call, if it is a TCP connection. Use the result
// in place of conn, from now on.
func Direct(conn net.Conn) net.Conn { return newDirect(conn) }
