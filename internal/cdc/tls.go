package cdc

import (
	"crypto/x509"
	"errors"
	"strings"
)

// TLSFix returns the fix for a TLS connection that one of the two sides refused; "" if err is about something else.
// section is the path of the TLS settings, such as kafka.tls.
func TLSFix(err error, section string) string {
	var invalid x509.CertificateInvalidError
	text := err.Error() // of drivers that do not wrap
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired, strings.Contains(text, "x509: certificate has expired"):
		return "renew the server's certificate, or correct the clock of this machine"
	case strings.Contains(text, "x509: certificate signed by unknown authority"):
		return "set " + section + ".ca to the certificate of the CA that signed the server's"
	case errors.As(err, new(x509.HostnameError)), strings.Contains(text, "x509: certificate is valid for"), strings.Contains(text, "x509: cannot validate"):
		return "connect by a name in the server's certificate, or set " + section + ".server_name to one"
	case strings.Contains(text, "x509: "):
		return "correct the server's certificate, or " + section
	case strings.Contains(text, "tls: expired certificate"):
		return "renew the client's certificate (" + section + ".cert)"
	case strings.Contains(text, "tls: certificate required"):
		return "set " + section + ".cert and " + section + ".key to a client certificate that the server trusts"
	case strings.Contains(text, "remote error: tls: "):
		return "set " + section + ".cert and " + section + ".key to a client certificate that the server trusts, or correct " + section
	case strings.Contains(text, "read client certificate"):
		return "write certificate and key to " + section + ".cert and " + section + ".key together; they are read again at the next attempt"
	}
	return ""
}
