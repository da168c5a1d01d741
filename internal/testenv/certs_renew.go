package testenv

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
)

// renew signs a new certificate for the server, by a new CA if the old one is to be replaced.
func (a *Authority) renew(inst *instance, newCA bool) (cert, key string, err error) {
	if newCA {
		if err := a.extend(); err != nil {
			return "", "", err
		}
	}
	return a.issue(inst)
}

// Renew replaces the server's certificate while it runs. New connections get it.
func (p *PostgresServer) Renew(ctx context.Context, newCA bool) error {
	if _, _, err := p.Certs.renew(p.inst, newCA); err != nil {
		return err
	}
	return p.Exec(ctx, "postgres", "SELECT pg_reload_conf()")
}

// Renew replaces the server's certificate while it runs. New connections get it.
func (m *MySQLServer) Renew(ctx context.Context, newCA bool) error {
	if _, _, err := m.Certs.renew(m.inst, newCA); err != nil {
		return err
	}
	if m.Flavor == MariaDBFlavor {
		return m.Exec(ctx, "", "FLUSH SSL")
	}
	return m.Exec(ctx, "", "ALTER INSTANCE RELOAD TLS")
}

// Renew replaces the server's certificate while it runs. New connections get it.
func (r *RedisServer) Renew(ctx context.Context, newCA bool) error {
	old := r.admin()
	defer func() { _ = old.Close() }()
	if err := old.Ping(ctx).Err(); err != nil { // the connection is kept for the next command
		return err
	}
	cert, key, err := r.Certs.renew(r.inst, newCA)
	if err != nil {
		return err
	}
	return old.Do(ctx, "CONFIG", "SET", "tls-cert-file", cert, "tls-key-file", key).Err()
}

// Renew replaces the certificate of every broker's TLS listeners while they run. New connections get it.
func (k *KafkaCluster) Renew(ctx context.Context, newCA bool, listeners ...Listener) error {
	for i, b := range k.brokers {
		if newCA && i == 0 {
			if err := k.Certs.extend(); err != nil {
				return err
			}
		}
		keystore, err := b.keystore()
		if err != nil {
			return err
		}
		for _, l := range listeners {
			if err := b.alter(ctx, "listener.name."+strings.ToLower(string(l))+".ssl.keystore.location", keystore); err != nil {
				return err
			}
			if err := b.awaitCertificate(ctx, l, keystore); err != nil {
				return err
			}
		}
	}
	return nil
}

// keystore writes a new certificate of the broker and its key.
func (b *Broker) keystore() (path string, err error) {
	cert, key, err := b.cluster.Certs.sign("broker")
	if err != nil {
		return "", err
	}
	return b.inst.write(fmt.Sprintf("tls/keystore%d.pem", len(b.cluster.Certs.cas)), key+cert)
}

// awaitCertificate waits until a listener has the certificate of a keystore: a broker applies a setting after it has answered.
func (b *Broker) awaitCertificate(ctx context.Context, l Listener, keystore string) error {
	text, err := os.ReadFile(keystore)
	if err != nil {
		return err
	}
	return b.inst.awaitReady(ctx, func(ctx context.Context) error {
		dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}
		conn, err := dialer.DialContext(ctx, "tcp", b.ports[l].addr())
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		served := conn.(*tls.Conn).ConnectionState().PeerCertificates[0].Raw //nolint:forcetypeassert // a tls.Dialer's
		if !strings.Contains(string(text), encodePEM("CERTIFICATE", served)) {
			return errors.New("the listener still has the old certificate")
		}
		return nil
	})
}

// alter changes a dynamic setting of the broker.
func (b *Broker) alter(ctx context.Context, name, value string) error {
	cl, err := admin(b.Addr(ListenerPlain))
	if err != nil {
		return err
	}
	defer cl.Close()
	altered, err := cl.AlterBrokerConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: name, Value: &value}}, int32(b.ID))
	if err != nil {
		return err
	}
	for _, r := range altered {
		if r.Err != nil {
			return fmt.Errorf("alter %s of broker %d: %w: %s", name, b.ID, r.Err, r.ErrMessage)
		}
	}
	return nil
}
