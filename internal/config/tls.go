package config

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// ClientConfig returns a client's TLS configuration; nil for a nil receiver. It reads the CAs now, and the client's
// certificate at every handshake, so that a renewed one is used.
func (t *TLS) ClientConfig() (*tls.Config, error) {
	if t == nil {
		return nil, nil //nolint:nilnil // crypto/tls's own word for no TLS
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	c.InsecureSkipVerify = t.InsecureSkipVerify // the operator's choice; Warnings tells
	if t.CA != "" {
		pool, err := readAuthorities(t.CA)
		if err != nil {
			return nil, err
		}
		c.RootCAs = pool
	}
	if t.Cert != "" {
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return readCertificate(t.Cert, t.Key)
		}
	}
	return c, nil
}

func readCertificate(cert, key string) (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("read client certificate %s and its key: %w", cert, err)
	}
	return &pair, nil
}

func readAuthorities(path string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read certificate authorities: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("read certificate authorities: %s holds no certificate in PEM form", path)
	}
	return pool, nil
}

// tls checks a TLS section and that its files can be read.
func (d *document) tls(t *TLS, path string) {
	if t == nil {
		return
	}
	if t.CA != "" {
		if _, err := readAuthorities(t.CA); err != nil {
			d.report(path+".ca", "name a PEM file of certificates", "cannot be used (%v)", pathless(err))
		}
	}
	switch {
	case t.Cert != "" && t.Key == "":
		d.report(path+".cert", "set "+path+".key", "needs the private key too")
	case t.Cert == "" && t.Key != "":
		d.report(path+".key", "set "+path+".cert", "needs the certificate too")
	case t.Cert != "":
		if _, err := readCertificate(t.Cert, t.Key); err != nil {
			d.report(path+".cert", "name PEM files of a certificate and of its key", "cannot be used (%v)", errors.Unwrap(err))
		}
	}
}
