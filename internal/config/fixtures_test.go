package config_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	schemas "github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"

	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	testenv.Must(t, os.WriteFile(path, []byte(text), 0o600))
}

// writeCertificate makes a certificate that is its own authority: ca.pem, client.pem, client-key.pem.
func writeCertificate(t *testing.T, dir string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	testenv.Must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	testenv.Must(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	testenv.Must(t, err)
	certPEM := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}))
	writeFile(t, filepath.Join(dir, "ca.pem"), certPEM)
	writeFile(t, filepath.Join(dir, "client.pem"), certPEM)
	writeFile(t, filepath.Join(dir, "client-key.pem"), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})))
}

func compileSchema(t *testing.T) *schemas.Schema {
	t.Helper()
	doc, err := schemas.UnmarshalJSON(bytes.NewReader(config.Schema()))
	testenv.Must(t, err)
	c := schemas.NewCompiler()
	testenv.Must(t, c.AddResource("cdc-relay.json", doc))
	s, err := c.Compile("cdc-relay.json")
	testenv.Must(t, err)
	return s
}

// againstSchema validates YAML with an implementation of JSON schema that shares no code with ours.
func againstSchema(t *testing.T, s *schemas.Schema, text string) error {
	t.Helper()
	var value any
	if err := yaml.Load([]byte(text), &value); err != nil {
		return err
	}
	return s.Validate(value)
}

func valid(t *testing.T, s *schemas.Schema, text string) {
	t.Helper()
	if err := againstSchema(t, s, text); err != nil {
		t.Errorf("the schema does not take what is read: %v", err)
	}
}
