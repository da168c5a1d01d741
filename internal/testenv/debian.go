package testenv

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// debianProgram fetches a server from Debian's packages and verifies that it runs here.
func (s *store) debianProgram(ctx context.Context, pkg, bin, name string, more ...string) (*program, error) {
	if _, err := exec.LookPath("apt-get"); err != nil {
		return nil, errNoApt
	}
	entry := pkg + "-" + distribution()
	for range 2 {
		dir, err := s.entry(ctx, entry, func(dir string) error {
			return s.unpackDebian(ctx, dir, append([]string{pkg}, more...)...)
		})
		if err != nil {
			return nil, err
		}
		found, err := unpacked(dir, bin)
		if err != nil {
			return nil, err
		}
		if found.major(ctx, name) != 0 {
			return found, nil
		}
		if err := os.RemoveAll(dir); err != nil { // unpacked for libraries that the system no longer has: unpack again
			return nil, err
		}
	}
	return nil, fmt.Errorf("%s from package %s does not run on this system", name, pkg)
}

// distribution names system and architecture, because unpacked packages use the system's libraries.
func distribution() string {
	text, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return runtime.GOARCH
	}
	var id, version string
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch key {
		case "ID":
			id = strings.Trim(value, `"`)
		case "VERSION_ID":
			version = strings.Trim(value, `"`)
		}
	}
	return id + version + "-" + runtime.GOARCH
}
