package checkpoint

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// diagnosis is what is wrong with the server, and the fix. The zero value means unknown.
type diagnosis struct {
	what, fix string
	// mistake: a retry does not fix it; anything else may be temporary.
	mistake bool
}

func mistake(what, fix string) diagnosis { return diagnosis{what, fix, true} }

func temporary(what, fix string) diagnosis { return diagnosis{what, fix, false} }

// explain turns an error of the client into one with the location, the cause and the fix.
func (r *Redis) explain(verb string, err error) error {
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("%s: %w", verb, err)
	}
	for _, diagnose := range []func(error) diagnosis{r.access, r.topology, answer, handshake, network} {
		d := diagnose(err)
		if d == (diagnosis{}) {
			continue
		}
		cause := &failure{text: fmt.Sprintf("%s: %s %s", verb, r.server, d.what), err: err}
		if d.mistake && !r.saved.Load() {
			return cdc.Stop(cdc.ClassConfig, "checkpoint_config", cause, d.fix)
		}
		return &cdc.FixableError{Cause: cause, Fix: d.fix}
	}
	return fmt.Errorf("%s in %s: %w", verb, r.server, err)
}

// says reports whether err's text holds one of the parts. Servers older than 7 wrap the code of an
// error inside a script in text of their own, so a prefix is not enough.
func says(err error, parts ...string) bool {
	return err != nil && slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(err.Error(), part) })
}

// access finds wrong credentials and missing rights.
func (r *Redis) access(err error) diagnosis {
	var setting *settingError
	switch {
	case errors.As(err, &setting) && errors.Is(err, context.DeadlineExceeded):
		return temporary(fmt.Sprintf("cannot be asked yet (%v)", setting), cdc.Fix(setting.err))
	case errors.As(err, &setting):
		return mistake(fmt.Sprintf("cannot be asked because a setting cannot be read (%v)", setting), cmp.Or(cdc.Fix(setting.err), "correct "+setting.setting))
	case says(err, "WRONGPASS", "invalid password"):
		fix := "correct checkpoint.redis.username and checkpoint.redis.password"
		if r.options.MasterName != "" { // the client does not say which server refused
			fix += ", or sentinel_username and sentinel_password, which are read at the start: restart the relay then"
		}
		return mistake("refused the username or the password", fix)
	case says(err, "NOPERM", "ACL failure", "executing the script can't"):
		return mistake(fmt.Sprintf("denies the user a right (%v)", err),
			"grant what the relay needs: ACL SETUSER <user> ~"+r.options.Key+" +get +set +eval +evalsha +info +select +cluster|slots")
	default:
		return diagnosis{}
	}
}

// topology finds a mode that does not fit the server.
func (r *Redis) topology(err error) diagnosis {
	switch {
	case r.options.Mode == Sentinel && says(err, "redis: nil"):
		return mistake("is not known to the sentinels", "correct checkpoint.redis.master_name")
	case r.options.Mode == Sentinel && says(err, "unknown command"):
		return mistake("cannot be looked up because checkpoint.redis.addrs leads to a server that is not a sentinel",
			"give the sentinels' addresses or set checkpoint.redis.mode to standalone")
	case says(err, "unknown command"):
		return mistake(fmt.Sprintf("lacks a command (%v)", err),
			"set checkpoint.redis.mode to sentinel if this is a sentinel, or use a server that runs scripts")
	default:
		return diagnosis{}
	}
}

// answer finds what the server says in words that need no more.
func answer(err error) diagnosis {
	for _, known := range []struct {
		says string
		diagnosis
	}{
		{"NOAUTH", mistake("requires a password", "set checkpoint.redis.password, and checkpoint.redis.username for an ACL user")},
		{"without any password configured", mistake("has no password and was given one", "remove checkpoint.redis.password")},
		{"MOVED ", mistake("is a cluster", "set checkpoint.redis.mode to cluster")},
		{"cluster support disabled", mistake("is not a cluster", "set checkpoint.redis.mode to standalone")},
		{"can't parse", temporary("does not answer as Redis does", "correct checkpoint.redis.addrs")},
		{"DB index is out of range", mistake("has no database of that number", "correct checkpoint.redis.db")},
		// These end by themselves, or the server's operator ends them, while the relay retries.
		{"READONLY", temporary("is a read-only replica", "wait for the failover to end, give the master's address, or set checkpoint.redis.mode to sentinel")},
		{"NOREPLICAS", temporary("has too few replicas to take writes", "bring its replicas back or lower min-replicas-to-write")},
		{"LOADING", temporary("is loading its data", "wait until it has")},
		{"MASTERDOWN", temporary("is a replica without its master", "wait for the failover to end or start the master")},
		{"CLUSTERDOWN", temporary("has hash slots that no node serves", "bring the cluster's nodes back")},
		{"OOM ", temporary("is out of memory", "raise maxmemory or remove other keys")},
		{"MISCONF", temporary("refuses writes because it cannot save to its disk", "read the server's log and free its disk")},
		{"max number of clients", temporary("has no free connection", "raise maxclients or close other clients")},
	} {
		if says(err, known.says) {
			return known.diagnosis
		}
	}
	return diagnosis{}
}

const tlsSection = "checkpoint.redis.tls"

// handshake finds TLS settings that do not fit the server.
func handshake(err error) diagnosis {
	var (
		plain   tls.RecordHeaderError
		invalid *tls.CertificateVerificationError
	)
	fix := cdc.TLSFix(err, tlsSection)
	switch {
	case errors.As(err, &plain):
		return mistake("does not use TLS on this port", "remove checkpoint.redis.tls or give the TLS port")
	case errors.As(err, &invalid):
		return mistake(fmt.Sprintf("has an invalid certificate (%v)", invalid.Err), fix)
	case fix != "":
		return mistake(fmt.Sprintf("cannot be asked over TLS (%v)", err), fix)
	default:
		return diagnosis{}
	}
}

// network finds servers that do not answer.
func network(err error) diagnosis {
	const start = "start it or correct checkpoint.redis.addrs"
	var (
		host    *net.DNSError
		op      *net.OpError
		timeout net.Error
	)
	late := errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
	switch {
	case errors.As(err, &host) && host.IsNotFound:
		return temporary(fmt.Sprintf("has a host name that does not resolve (%s)", host.Name), "correct checkpoint.redis.addrs or the DNS")
	case errors.Is(err, syscall.ECONNREFUSED):
		return temporary(fmt.Sprintf("cannot be reached (%v)", err), start)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return temporary("closed the connection",
			"see whether checkpoint.redis.addrs names a Redis server, read its log, raise maxclients if as many are connected, and set checkpoint.redis.tls if it uses TLS on this port")
	case late:
		return temporary("did not answer in time", "make sure that it is a Redis server, up, reachable and not held up by a slow command, and set checkpoint.redis.tls only if it uses TLS on this port")
	case errors.As(err, &op):
		return temporary(fmt.Sprintf("cannot be reached (%v)", err), start)
	default:
		return diagnosis{}
	}
}
