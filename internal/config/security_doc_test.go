package config_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/config"
)

// Each whole configuration on these pages loads, where its programs and files exist, and warns of nothing with TLS.
func TestExamplesOfPages(t *testing.T) {
	dir := t.TempDir()
	writeCertificate(t, dir)
	for _, program := range []string{"aws", "gcloud", "az"} {
		if err := os.WriteFile(filepath.Join(dir, program), []byte("#!/bin/sh\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	for _, name := range []string{"postgres", "mysql", "redis", "oauth"} {
		writeFile(t, filepath.Join(dir, name), "hunter2\n")
	}
	text, found := "", 0
	for _, page := range []string{"security", "routing", "postgresql", "mysql", "exactly-once"} {
		text += example(t, "../../docs/"+page+".md")
	}
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(text, -1) {
		if !strings.Contains(block[1], "source:") || !strings.Contains(block[1], "kafka:") {
			continue
		}
		found++
		yaml := strings.NewReplacer("/run/secrets/", dir+"/", "global-bundle.pem", "ca.pem", "server-ca.pem", "ca.pem").Replace(block[1])
		c, err := config.Parse(filepath.Join(dir, "cdc-relay.yaml"), []byte(yaml), environment(map[string]string{"DATABASE_URL": "postgres://app@localhost/orders"}))
		if err != nil {
			t.Errorf("%s\n%v", block[1], err)
			continue
		}
		for _, warning := range c.Warnings() {
			if strings.Contains(block[1], "tls:") && !strings.Contains(warning.Text, "PostgreSQL") {
				t.Errorf("%s\n%s", block[1], warning.Text)
			}
		}
	}
	if found < 19 {
		t.Errorf("%d examples", found)
	}
}
