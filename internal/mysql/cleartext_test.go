package mysql

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http/httptest"
	"strings"
	"testing"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
	fake "github.com/go-mysql-org/go-mysql/server"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Both clients send a password in clear text, as IAM tokens are, only if allowCleartextPasswords is set. Without TLS a server that
// asks for it does not get it.
func TestCleartextPassword(t *testing.T) {
	token := "db.example.com:3306/?Action=connect&X-Amz-Signature=" + strings.Repeat("0123456789abcdef", 80) + `%s"'\`
	web := httptest.NewTLSServer(nil)
	defer web.Close()
	roots := x509.NewCertPool()
	roots.AddCert(web.Certificate())
	secure := func() (*tls.Config, error) { return &tls.Config{RootCAs: roots, ServerName: "127.0.0.1"}, nil }
	for name, tt := range map[string]struct {
		tls    func() (*tls.Config, error)
		params string
		stops  bool
	}{
		"allowed":              {secure, "?allowCleartextPasswords=true", false},
		"not allowed, no TLS":  {nil, "", true},
		"not allowed with TLS": {secure, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			var serverTLS *tls.Config
			if tt.tls != nil {
				serverTLS = &tls.Config{Certificates: web.TLS.Certificates}
			}
			address, told := asksForPassword(t, gomysql.AUTH_CLEAR_PASSWORD, serverTLS, token)
			o := Options{DSN: func(context.Context) (string, error) {
				return "relay:" + token + "@tcp(" + address + ")/orders" + tt.params, nil
			}, TLS: tt.tls}
			db, _, err := Connect(t.Context(), &o)
			if err == nil {
				_ = db.Close()
			}
			wantCleartext(t, "queries", err, tt.stops)
			if tt.stops && tt.tls != nil {
				return // the relay never gets to the second connection
			}
			cfg, err := o.Endpoint(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			conn, err := ConnectReplication(t.Context(), cfg)
			if err == nil {
				_ = conn.Close()
			}
			wantCleartext(t, "replication", err, tt.stops)
			if got := len(told); got != map[bool]int{false: 2, true: 0}[tt.stops] {
				t.Errorf("the server got the password %d times", got)
			}
		})
	}
}

// A plugin that neither client has is a mistake, and not a server that cannot be reached.
func TestUnknownAuthenticationPlugin(t *testing.T) {
	address, _ := asksForPassword(t, "dialog", nil, "hunter2")
	o := Options{DSN: func(context.Context) (string, error) { return "relay:hunter2@tcp(" + address + ")/orders", nil }}
	cfg, err := o.Endpoint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, queries := Open(t.Context(), cfg)
	_, replication := ConnectReplication(t.Context(), cfg)
	for _, err := range []error{queries, replication} {
		var stop *cdc.StopError
		if !errors.As(err, &stop) || stop.Reason != "auth_plugin" || !strings.Contains(cdc.Fix(err), "caching_sha2_password") {
			t.Errorf("%v", cdc.Explain(err))
		}
	}
}

func wantCleartext(t *testing.T, connection string, err error, stops bool) {
	t.Helper()
	var stop *cdc.StopError
	if errors.As(err, &stop) != stops || stops && stop.Reason != "cleartext" || !stops && err != nil {
		t.Errorf("%s: %v", connection, err)
	}
	if err != nil && strings.Contains(cdc.Explain(err), "Signature") {
		t.Errorf("%s: leaked in %v", connection, err)
	}
}

// asksForPassword starts a server that authenticates every client by a plugin, and hands out the passwords that it is told.
func asksForPassword(t *testing.T, plugin string, secure *tls.Config, password string) (address string, told chan string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	told = make(chan string, 10)
	users := anyUser{fake.NewInMemoryAuthenticationHandler(), fake.Credential{Passwords: []string{password}, AuthPluginName: plugin}}
	s := fake.NewServerWithAuth("8.4.0", gomysql.DEFAULT_COLLATION_ID, gomysql.AUTH_NATIVE_PASSWORD, nil, secure, clearPassword{told, password})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			c, err := s.NewCustomizedConn(conn, users, accepting{})
			for err == nil {
				err = c.HandleCommand()
			}
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-done
	})
	return listener.Addr().String(), told
}

// anyUser has a credential of any plugin for every user.
type anyUser struct {
	*fake.InMemoryAuthenticationHandler

	credential fake.Credential
}

func (u anyUser) GetCredential(string) (fake.Credential, bool, error) { return u.credential, true, nil }

// clearPassword is the server's side of mysql_clear_password.
type clearPassword struct {
	told     chan string
	password string
}

func (clearPassword) Validate(string) bool { return true }

func (p clearPassword) Authenticate(_ *fake.Conn, plugin string, sent []byte) error {
	if got := strings.TrimSuffix(string(sent), "\x00"); plugin != gomysql.AUTH_CLEAR_PASSWORD || got != p.password {
		return fake.ErrAccessDenied
	}
	p.told <- p.password
	return nil
}

type accepting struct{ fake.EmptyHandler }

func (accepting) HandleQuery(string) (*gomysql.Result, error) { return gomysql.NewResult(nil), nil }
