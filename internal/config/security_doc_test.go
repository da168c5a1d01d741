package config_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// Each whole configuration on these pages loads, where its programs and files exist.
func TestExamplesOfPages(t *testing.T) {
	const docs = "../../docs/"
	text := example(t, docs+"security.md") + example(t, docs+"routing.md") + example(t, docs+"postgresql.md") + example(t, docs+"mysql.md") + example(t, docs+"exactly-once.md")
	dir := t.TempDir()
	writeCertificate(t, dir)
	for _, program := range []string{"aws", "gcloud", "az"} {
		testenv.Must(t, os.WriteFile(filepath.Join(dir, program), []byte("#!/bin/sh\n"), 0o700))
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	for _, name := range []string{"postgres", "mysql", "redis", "oauth"} {
		writeFile(t, filepath.Join(dir, name), "hunter2\n")
	}
	blocks := regexp.MustCompile("```yaml\n(source:[^`]*\nkafka:[^`]*)```").FindAllStringSubmatch(text, -1)
	if len(blocks) < 19 {
		t.Errorf("%d examples", len(blocks))
	}
	for _, block := range blocks {
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
}
