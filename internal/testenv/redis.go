package testenv

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// RedisOptions are the options of a server. The zero value is a server without password, TLS or persistence.
type RedisOptions struct {
	Password   string            // The default user's.
	Users      []string          // ACL users in the form of redis.conf: "relay on >secret ~cdc-relay:* +@all".
	TLS        bool              // Accepts TLS connections only, with a certificate for 127.0.0.1 and localhost; see Certs.
	AppendOnly bool              // Keeps data across Kill (appendfsync always).
	Settings   map[string]string // Lines of redis.conf; they replace defaults.
}

// RedisServer is a Redis server on 127.0.0.1.
type RedisServer struct {
	Certs *Authority // nil without TLS

	daemon
	prog    *program
	options RedisOptions
	mode    []string // more arguments
	bus     int      // port of the cluster bus
}

// StartRedis starts a server and waits until it is ready. It ends with Close or with this process.
func StartRedis(ctx context.Context, o RedisOptions) (*RedisServer, error) {
	prog, err := getRedis(ctx)
	if err != nil {
		return nil, err
	}
	r, err := newRedis(ctx, prog, o)
	if err != nil {
		return nil, err
	}
	if err := r.Start(ctx); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// newRedis returns a server that is not started yet.
func newRedis(ctx context.Context, prog *program, o RedisOptions) (*RedisServer, error) {
	d, err := newDaemon(ctx, "redis", "KILL")
	if err != nil {
		return nil, err
	}
	r := &RedisServer{prog: prog, options: o, daemon: d}
	if err := r.configure(); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

func (r *RedisServer) configure() error {
	settings := map[string]string{
		"bind":                     "127.0.0.1",
		"port":                     strconv.Itoa(r.port.number),
		"dir":                      r.inst.dir,
		"save":                     `""`,
		"appendonly":               "no",
		"repl-diskless-sync-delay": "0",
	}
	if r.options.AppendOnly {
		settings["appendonly"], settings["appendfsync"] = "yes", "always"
	}
	if r.options.Password != "" {
		settings["requirepass"], settings["masterauth"] = r.options.Password, r.options.Password
	}
	if r.options.TLS {
		if err := r.encrypt(settings); err != nil {
			return err
		}
	}
	maps.Copy(settings, r.options.Settings)
	_, err := r.inst.write("redis.conf", renderRedis(settings, r.options.Users))
	return err
}

func (r *RedisServer) encrypt(settings map[string]string) (err error) {
	if r.Certs, err = newAuthority(r.inst); err != nil {
		return err
	}
	cert, key, err := r.Certs.issue(r.inst)
	if err != nil {
		return err
	}
	maps.Copy(settings, map[string]string{
		"port": "0", "tls-port": strconv.Itoa(r.port.number), "tls-auth-clients": "no",
		"tls-cert-file": cert, "tls-key-file": key, "tls-ca-cert-file": r.Certs.CAFile,
	})
	return nil
}

func renderRedis(settings map[string]string, users []string) string {
	var text strings.Builder
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&text, "%s %s\n", key, settings[key])
	}
	for _, user := range users {
		text.WriteString("user " + user + "\n")
	}
	return text.String()
}

// Start starts the server on the same port and waits until it is ready.
func (r *RedisServer) Start(ctx context.Context) error {
	if err := r.inst.start(ctx, r.prog.command("redis-server", append([]string{r.inst.path("redis.conf")}, r.mode...)...)); err != nil {
		return err
	}
	if err := r.inst.awaitReady(ctx, r.ping); err != nil {
		return fmt.Errorf("start Redis: %w", err)
	}
	return nil
}

func (r *RedisServer) ping(ctx context.Context) error {
	client := r.admin()
	defer func() { _ = client.Close() }()
	if err := dial(ctx, r.Addr()); err != nil {
		return err // before go-redis, which logs each failed attempt
	}
	return client.Ping(ctx).Err()
}

// admin returns a client with all rights.
func (r *RedisServer) admin() *redis.Client {
	options := &redis.Options{Addr: r.Addr(), Password: r.options.Password, MaxRetries: -1, DialerRetries: 1}
	if r.Certs != nil {
		options.TLSConfig = r.Certs.ClientConfig()
		options.TLSConfig.GetClientCertificate = r.Certs.clientPair // for tls-auth-clients
	}
	return redis.NewClient(options)
}

// Do runs one command with all rights and returns the answer as text.
func (r *RedisServer) Do(ctx context.Context, args ...any) (string, error) {
	client := r.admin()
	defer func() { _ = client.Close() }()
	answer, err := client.Do(ctx, args...).Result()
	if err != nil {
		return "", fmt.Errorf("redis %v: %w", args[0], err)
	}
	return fmt.Sprint(answer), nil
}

// Close kills the server and removes its data.
func (r *RedisServer) Close() error { return r.inst.close() }
