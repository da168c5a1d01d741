package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// The manual pages of a release are written by this test, so that the generator is not linked into the relay: with
// CDC_RELAY_MAN they go to that directory (make release-files).
func TestEveryCommandHasAManualPage(t *testing.T) {
	dir := os.Getenv("CDC_RELAY_MAN")
	if dir == "" {
		dir = t.TempDir()
	}
	root := newRootCommand(&cli{env: func(string) (string, bool) { return "", false }})
	root.DisableAutoGenTag = true
	header := &doc.GenManHeader{Section: "1", Source: "cdc-relay", Manual: "cdc-relay"}
	if err := doc.GenManTree(root, header, dir); err != nil {
		t.Fatal(err)
	}
	var verify func(cmd *cobra.Command)
	verify = func(cmd *cobra.Command) {
		page, err := os.ReadFile(filepath.Join(dir, strings.ReplaceAll(cmd.CommandPath(), " ", "-")+".1"))
		if cmd.IsAvailableCommand() && (err != nil || !strings.Contains(string(page), cmd.Short[:10])) {
			t.Errorf("%s: %v\n%s", cmd.CommandPath(), err, page)
		}
		for _, child := range cmd.Commands() {
			verify(child)
		}
	}
	verify(root)
}
