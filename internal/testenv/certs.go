package testenv

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"strings"
	"time"
)

// Authority is one server's certificate authority, or several of them after a rotation. It signs the server's certificate and client
// certificates.
type Authority struct {
	CAFile string // PEM of all of them, world-readable

	inst *instance
	cas  []ca // the last one signs
}

type ca struct {
	pem  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(inst *instance) (*Authority, error) {
	a := &Authority{inst: inst}
	err := a.extend()
	return a, err
}

// extend adds a CA, which signs from now on.
func (a *Authority) extend() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := certificate(fmt.Sprintf("cdc-relay test authority %d", len(a.cas)+1))
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return fmt.Errorf("make certificate authority: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return err
	}
	a.cas = append(a.cas, ca{encodePEM("CERTIFICATE", der), cert, key})
	var all strings.Builder
	for _, each := range a.cas {
		all.WriteString(each.pem)
	}
	if a.CAFile, err = a.inst.write("tls/ca.pem", all.String()); err != nil {
		return err
	}
	return os.Chmod(a.CAFile, 0o644)
}

// CA returns the CA that signs now, in PEM form.
func (a *Authority) CA() string { return a.cas[len(a.cas)-1].pem }

// Client returns a client certificate for a common name and its key in PEM form, signed by the first CA.
func (a *Authority) Client(name string, expires time.Time) (cert, key string, err error) {
	return a.cas[0].sign(name, expires)
}

// issue writes the server's certificate, valid for 127.0.0.1 and localhost, and its key as PEM files.
func (a *Authority) issue(inst *instance) (certFile, keyFile string, err error) {
	cert, key, err := a.sign("server")
	if err != nil {
		return "", "", err
	}
	if certFile, err = inst.write("tls/server.pem", cert); err != nil {
		return "", "", err
	}
	keyFile, err = inst.write("tls/server.key", key)
	return certFile, keyFile, err
}

func (a *Authority) sign(name string) (cert, key string, err error) {
	return a.cas[len(a.cas)-1].sign(name, time.Now().Add(24*time.Hour))
}

func (c *ca) sign(name string, expires time.Time) (cert, key string, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", err
	}
	template := certificate(name)
	template.NotAfter = expires
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	template.DNSNames = []string{"localhost"}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	der, err := x509.CreateCertificate(rand.Reader, template, c.cert, &private.PublicKey, c.key)
	if err != nil {
		return "", "", fmt.Errorf("sign certificate %s: %w", name, err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return "", "", err
	}
	return encodePEM("CERTIFICATE", der), encodePEM("PRIVATE KEY", secret), nil
}

func certificate(name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
	}
}

func encodePEM(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// ClientConfig returns a TLS configuration that trusts every CA that signed.
func (a *Authority) ClientConfig() *tls.Config {
	pool := x509.NewCertPool()
	for _, each := range a.cas {
		pool.AddCert(each.cert)
	}
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
}

// clientPair implements [tls.Config.GetClientCertificate].
func (a *Authority) clientPair(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	cert, key, err := a.Client("admin", time.Now().Add(time.Hour))
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
	return &pair, err
}
