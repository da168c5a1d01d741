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
	"time"
)

// authority is one server's certificate authority. It signs the server's certificate and client certificates.
type authority struct {
	CAFile string // PEM, world-readable

	inst *instance
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(inst *instance) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := certificate("cdc-relay test authority")
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("make certificate authority: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	file, err := inst.write("tls/ca.pem", encodePEM("CERTIFICATE", der))
	if err != nil {
		return nil, err
	}
	return &authority{CAFile: file, inst: inst, cert: cert, key: key}, os.Chmod(file, 0o644)
}

// issue writes a certificate for a common name, valid for 127.0.0.1 and localhost, and its key as PEM files.
func (a *authority) issue(inst *instance, name string) (certFile, keyFile string, err error) {
	cert, key, err := a.sign(name)
	if err != nil {
		return "", "", err
	}
	if certFile, err = inst.write("tls/"+name+".pem", cert); err != nil {
		return "", "", err
	}
	keyFile, err = inst.write("tls/"+name+".key", key)
	return certFile, keyFile, err
}

func (a *authority) sign(name string) (cert, key string, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", err
	}
	template := certificate(name)
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	template.DNSNames = []string{"localhost"}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &private.PublicKey, a.key)
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

// ClientConfig returns a TLS configuration that trusts the authority.
func (a *authority) ClientConfig() *tls.Config {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
}
