package checkpoint

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

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
	for _, diagnose := range []func(error) diagnosis{r.access, r.topology, answer, handshake, unasked} {
		d := diagnose(err)
		if d == (diagnosis{}) {
			continue
		}
		cause := &failure{text: fmt.Sprintf("%s: %s %s", verb, r.server, d.what), err: err}
		if d.mistake && r.last.Load() == nil {
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
		{"READONLY", temporary("is a read-only replica", "wait for the failover to end, give the master's address, or set checkpoint.redis.mode to sentinel")},
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

// unasked tells of a server that has answered nothing. What a server itself says (that it loads its data, or is out of memory) needs no other
// words.
func unasked(err error) diagnosis {
	if errors.As(err, new(redis.Error)) {
		return diagnosis{}
	}
	return temporary(fmt.Sprintf("cannot be asked (%s)", cdc.LastCause(err)), "start it, correct checkpoint.redis.addrs or the DNS, "+
		"raise maxclients if as many are connected, and set checkpoint.redis.tls if, and only if, this port uses TLS")
}
