package checkpoint

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Mode is the kind of Redis deployment.
type Mode string

// The modes.
const (
	// Standalone is one server, or one address that always leads to the master.
	Standalone Mode = "standalone"
	// Sentinel is a master behind sentinels; the addresses are the sentinels'.
	Sentinel Mode = "sentinel"
	// Cluster is a Redis cluster; the addresses are some of its nodes, or its configuration endpoint.
	Cluster Mode = "cluster"
)

// RedisOptions are validated by package config.
type RedisOptions struct {
	// Mode must fit the server; it is not detected.
	Mode Mode
	// Addrs are host:port: one for Standalone, one or more for the others.
	Addrs []string
	// MasterName is the sentinels' name of the master; Sentinel only.
	MasterName string
	// Key is the checkpoint's key.
	Key string
	// DB is the database number; 0 on a cluster.
	DB int
	// Username is an ACL user; "" is the default user.
	Username string
	// Password is called at every connect, so that a rotated secret is used. nil or "" means no password.
	Password func(context.Context) (string, error)
	// SentinelUsername and SentinelPassword are for the sentinels. The password is called once: the client takes no other later.
	SentinelUsername string
	SentinelPassword func(context.Context) (string, error)
	// TLS is called at every connect, so that renewed certificates are used. nil or a nil result means no TLS. The default
	// server name is the address.
	TLS func() (*tls.Config, error)
}

// Timeouts of one step of a call; callTimeout limits the whole call.
const (
	dialTimeout = 2 * time.Second
	ioTimeout   = time.Second
)

// client returns the client, which connects at the first call.
func (o RedisOptions) client(ctx context.Context) (redis.UniversalClient, error) {
	u, err := o.universal(ctx)
	if err != nil {
		return nil, err
	}
	switch o.Mode {
	case Standalone:
		return redis.NewClient(u.Simple()), nil
	case Sentinel:
		return redis.NewFailoverClient(u.Failover()), nil
	default: // Cluster
		c := u.Cluster()
		c.DisableRoutingPolicies = true // they need COMMAND, a right that the relay's user usually lacks
		return redis.NewClusterClient(c), nil
	}
}

func (o RedisOptions) universal(ctx context.Context) (*redis.UniversalOptions, error) {
	u := &redis.UniversalOptions{
		Addrs:                 o.Addrs,
		MasterName:            o.MasterName,
		DB:                    o.DB,
		Dialer:                o.dial,
		SentinelUsername:      o.SentinelUsername,
		DialTimeout:           dialTimeout,
		DialerRetries:         1,
		ReadTimeout:           ioTimeout,
		WriteTimeout:          ioTimeout,
		ContextTimeoutEnabled: true,
		// One more try covers a connection that the server closed meanwhile. It is safe because a save
		// repeated byte for byte is accepted.
		MaxRetries:               1,
		PoolSize:                 4,
		PipelinePoolSize:         -1,
		ReadBufferSize:           4 << 10,
		WriteBufferSize:          4 << 10,
		IdentitySuffix:           "cdc-relay",
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},

		CredentialsProviderContext: o.credentials,
	}
	if o.SentinelPassword == nil {
		return u, nil
	}
	password, err := o.SentinelPassword(ctx)
	if err != nil {
		return nil, fmt.Errorf("checkpoint.redis.sentinel_password: %w", err)
	}
	u.SentinelPassword = password
	return u, nil
}

func (o RedisOptions) credentials(ctx context.Context) (username, password string, err error) {
	if o.Password == nil {
		return o.Username, "", nil
	}
	password, err = o.Password(ctx)
	if err != nil {
		return "", "", &settingError{"checkpoint.redis.password", err}
	}
	return o.Username, password, nil
}

func (o RedisOptions) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: dialTimeout}
	if o.TLS == nil {
		return dialer.DialContext(ctx, network, addr)
	}
	config, err := o.TLS()
	switch {
	case err != nil:
		return nil, &settingError{"checkpoint.redis.tls", err}
	case config == nil:
		return dialer.DialContext(ctx, network, addr)
	}
	return (&tls.Dialer{NetDialer: &dialer, Config: config}).DialContext(ctx, network, addr)
}

// settingError is a setting whose file or program fails at connect time.
type settingError struct {
	setting string
	err     error
}

func (e *settingError) Error() string { return fmt.Sprintf("%s: %v", e.setting, e.err) }

func (e *settingError) Unwrap() error { return e.err }

// describe returns the server's name for errors.
func (o RedisOptions) describe() string {
	addrs := strings.Join(o.Addrs, ",")
	switch o.Mode {
	case Sentinel:
		return fmt.Sprintf("redis master %q (sentinels %s)", o.MasterName, addrs)
	case Cluster:
		return "redis cluster " + addrs
	default:
		return "redis " + addrs
	}
}
