package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the linker (make build).
var version string

// build identifies the binary.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// buildVersion returns the version set by the linker, or else the one that `go install` recorded.
func buildVersion() build {
	b := build{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	if b.Version == "" {
		b.Version = info.Main.Version
	}
	if b.Version == "" || b.Version == "(devel)" {
		b.Version = "devel"
	}
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			b.Revision = s.Value + b.Revision
		case s.Key == "vcs.modified" && s.Value == "true":
			b.Revision += "+changes"
		}
	}
	return b
}

func versionLine(b build) string {
	return fmt.Sprintf("cdc-relay %s%s, %s, %s", b.Version, when(b.Revision != "", " ("+b.Revision+")"), b.Go, b.Platform)
}

func newVersionCommand(a *cli) *cobra.Command {
	var output outputFlag
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  cdc-relay version\n  cdc-relay version -o json",
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			b := buildVersion()
			return output.print(a, b, func() { a.printf("%s\n", versionLine(b)) })
		},
	}
	output.add(cmd)
	return cmd
}
