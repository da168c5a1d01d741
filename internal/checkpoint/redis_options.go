package checkpoint

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Mode says what kind of Redis the addresses lead to.
type Mode string

// The modes.
const (
	// Standalone is one server, or one address that always leads to the master.
	Standalone Mode = "standalone"
	// Sentinel is a master that sentinels know; the addresses are theirs.
	Sentinel Mode = "sentinel"
	// Cluster is a Redis cluster; the addresses are some of its nodes, or its configuration endpoint.
	Cluster Mode = "cluster"
)

// RedisOptions says where the checkpoint is kept.
type RedisOptions struct {
	// Mode must fit the server; it is not guessed.
	Mode Mode
	// Addrs are host:port: one for Standalone, one or more for the others.
	Addrs []string
	// Master is the name under which the sentinels know the master; Sentinel only.
	Master string
	// Key is the checkpoint's key, used as it is. A hash tag ("cdc-relay:{orders}") keeps what is stored
	// beside it later on the same node of a cluster.
	Key string
	// DB is the database's number; 0 on a cluster.
	DB int
	// Username is an ACL user; "" is the default user.
	Username string
	// Password is asked at every connect, so that a rotated secret is picked up. nil: no password. It
	// must not block for long.
	Password func() (string, error)
	// SentinelUsername and SentinelPassword log in to the sentinels, where those want it. The client
	// takes this password once, when it is made.
	SentinelUsername string
	SentinelPassword func() (string, error)
	// TLS turns TLS on; the server's name is filled in from the address when it is empty.
	TLS *tls.Config
}

// Timeouts of the client, each for one step of a call; callTimeout bounds the whole.
const (
	dialTimeout = 2 * time.Second
	ioTimeout   = time.Second
)

func (o RedisOptions) client() (redis.UniversalClient, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	u, err := o.universal()
	if err != nil {
		return nil, err
	}
	switch o.Mode {
	case Sentinel:
		return redis.NewFailoverClient(u.Failover()), nil
	case Cluster:
		c := u.Cluster()
		c.DisableRoutingPolicies = true // they need COMMAND, which an ACL user may not run; all we send has a key
		return redis.NewClusterClient(c), nil
	default:
		return redis.NewClient(u.Simple()), nil
	}
}

func (o RedisOptions) validate() error {
	switch {
	case o.Mode != Standalone && o.Mode != Sentinel && o.Mode != Cluster:
		return fmt.Errorf("checkpoint.redis.mode is %q: set it to standalone, sentinel or cluster", o.Mode)
	case len(o.Addrs) == 0:
		return errors.New("checkpoint.redis.addrs is empty: give at least one host:port")
	case o.Mode == Standalone && len(o.Addrs) > 1:
		return fmt.Errorf("checkpoint.redis.addrs has %d addresses and mode standalone takes one: set checkpoint.redis.mode to sentinel or cluster, or give one address", len(o.Addrs))
	case o.Mode == Sentinel && o.Master == "":
		return errors.New("checkpoint.redis.master is empty: give the name under which the sentinels know the master")
	case o.Mode == Cluster && o.DB != 0:
		return fmt.Errorf("checkpoint.redis.db is %d and a cluster has database 0 only: remove it", o.DB)
	case o.Key == "":
		return errors.New("checkpoint.redis.key is empty: give a key of its own to each relay")
	default:
		return nil
	}
}

func (o RedisOptions) universal() (*redis.UniversalOptions, error) {
	u := &redis.UniversalOptions{
		Addrs:                 o.Addrs,
		MasterName:            o.Master,
		DB:                    o.DB,
		TLSConfig:             o.TLS,
		Username:              o.Username,
		SentinelUsername:      o.SentinelUsername,
		DialTimeout:           dialTimeout,
		DialerRetries:         1,
		ReadTimeout:           ioTimeout,
		WriteTimeout:          ioTimeout,
		ContextTimeoutEnabled: true,
		// One more try covers a connection that the server closed meanwhile. It is safe because a save
		// repeated octet for octet is accepted.
		MaxRetries:               1,
		PoolSize:                 4,
		PipelinePoolSize:         -1,
		ReadBufferSize:           4 << 10,
		WriteBufferSize:          4 << 10,
		IdentitySuffix:           "cdc-relay",
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	if o.Password != nil {
		u.CredentialsProviderContext = o.credentials
	}
	if o.SentinelPassword != nil {
		password, err := o.SentinelPassword()
		if err != nil {
			return nil, &credentialsError{err}
		}
		u.SentinelPassword = password
	}
	return u, nil
}

func (o RedisOptions) credentials(context.Context) (username, password string, err error) {
	password, err = o.Password()
	if err != nil {
		return "", "", &credentialsError{err}
	}
	return o.Username, password, nil
}

// credentialsError is a secret that cannot be read.
type credentialsError struct{ err error }

func (e *credentialsError) Error() string { return "read the redis password: " + e.err.Error() }

func (e *credentialsError) Unwrap() error { return e.err }

func (o RedisOptions) describe() string {
	addrs := strings.Join(o.Addrs, ",")
	switch o.Mode {
	case Sentinel:
		return fmt.Sprintf("redis master %q (sentinels %s)", o.Master, addrs)
	case Cluster:
		return "redis cluster " + addrs
	default:
		return "redis " + addrs
	}
}
