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
	for page, atLeast := range map[string]int{"security": 11, "routing": 5, "postgresql": 1, "mysql": 1, "exactly-once": 1} {
		found := 0
		for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(example(t, "../../docs/"+page+".md"), -1) {
			if !strings.Contains(block[1], "source:") || !strings.Contains(block[1], "kafka:") {
				continue
			}
			found++
			yaml := strings.NewReplacer("/run/secrets/", dir+"/", "global-bundle.pem", "ca.pem", "server-ca.pem", "ca.pem").Replace(block[1])
			c, err := config.Parse(filepath.Join(dir, "cdc-relay.yaml"), []byte(yaml), environment(map[string]string{"DATABASE_URL": "postgres://app@localhost/orders"}))
			if err != nil {
				t.Errorf("%s: %s\n%v", page, block[1], err)
				continue
			}
			for _, warning := range c.Warnings() {
				if strings.Contains(block[1], "tls:") && !strings.Contains(warning.Text, "PostgreSQL") {
					t.Errorf("%s: %s\n%s", page, block[1], warning.Text)
				}
			}
		}
		if found < atLeast {
			t.Errorf("%d examples on the page %s", found, page)
		}
	}
}
