//go:build linux

package deploy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/cdctest"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

const (
	unitFile = root + "/deploy/systemd/cdc-relay@.service"
	instance = "cdc-relay@orders.service"
)

func TestUnitIsValidAndHardened(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, instance)
	write(t, path, strings.ReplaceAll(read(t, unitFile), "/usr/bin/cdc-relay", relayBinary(t)))
	verify := testenv.Tool(t, "systemd-analyze", "verify", "--man=no", path)
	verify.Env = append(verify.Env, "SYSTEMD_UNIT_PATH="+systemdFiles(verify)+"/system")
	if out, err := verify.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
	write(t, filepath.Join(dir, "usr", "lib", "systemd", "system", "cdc-relay@.service"), read(t, unitFile))
	const threshold = "15" // 1.5 of 10
	output(t, testenv.Tool(t, "systemd-analyze", "security", "--offline=yes", "--threshold="+threshold, "--root="+dir, instance))
}

// systemdFiles returns the directory of systemd's own units and programs.
func systemdFiles(tool *exec.Cmd) string {
	prefix := filepath.Dir(filepath.Dir(tool.Path))
	for _, dir := range []string{filepath.Join(prefix, "lib", "systemd"), filepath.Join(filepath.Dir(prefix), "lib", "systemd")} {
		if _, err := os.Stat(filepath.Join(dir, "system")); err == nil {
			return dir
		}
	}
	return ""
}

// A real systemd, which is process 1 of a namespace of its own and knows no unit but the relay's, starts the relay with
// everything that the unit forbids it. Only the files that the mounts show differ from an installed machine.
const bootScript = `set -e
mount --make-rshared /
mount -t overlay -o lowerdir="$1/etc:/etc" etc /etc
mount -t overlay -o lowerdir="$1/bin:/usr/bin" bin /usr/bin
mount -t cgroup2 none /sys/fs/cgroup
for dir in /run /var /root; do mount -t tmpfs none $dir; done
mkdir -p /var/tmp /var/lib
export container=test SYSTEMD_UNIT_PATH="$1/units" SYSTEMD_GENERATOR_PATH=/nowhere SYSTEMD_ENVIRONMENT_GENERATOR_PATH=/nowhere
exec "$2" --system --unit=cdc-relay@orders.service --log-target=console --show-status=no`

// A relay ends with exit code 5 and stays down; the command of docs/upgrade.md, its argument, restarts the one that runs.
const upgradeScript = `
run() { systemctl show --value --property=InvocationID cdc-relay@$1; }
systemctl start cdc-relay@lost
until systemctl is-failed cdc-relay@lost; do sleep 0.1; done
lost=$(run lost) orders=$(run orders)
eval "$1"
[ "$(run lost)" = "$lost" ] && [ "$(run orders)" != "$orders" ]`

func TestUnitRunsUnderSystemd(t *testing.T) {
	t.Parallel()
	needsRoot(t)
	dir := t.TempDir()
	address, release, err := testenv.ReservePort(t.Context())
	testenv.Must(t, err)
	defer func() { _ = release() }()
	_, port, _ := strings.Cut(address, ":")
	testenv.Must(t, os.Chmod(dir, 0o755))
	for name, text := range map[string]string{
		"etc/cdc-relay/orders.secrets/postgres": "secret",
		"etc/cdc-relay/orders.secrets/kafka":    "secret",
		"etc/cdc-relay/orders.env":              "PORT=" + port + "\n",
		"etc/cdc-relay/shared.yaml":             inInstall(t, "```yaml\n"), // the configuration for many databases
		"units/cdc-relay@.service":              read(t, unitFile),
		"units/cdc-relay@lost.service.d/5.conf": "[Service]\nLoadCredential=\nExecStart=\nExecStart=sh -c 'exit 5'\n", // its position is lost
		"units/sysinit.target":                  "[Unit]\nDefaultDependencies=no\n",
	} {
		write(t, filepath.Join(dir, name), text)
	}
	testenv.Must(t, errors.Join(
		os.Symlink("shared.yaml", dir+"/etc/cdc-relay/orders.yaml"), os.Chmod(dir+"/etc/cdc-relay/orders.secrets", 0o700),
	))
	output(t, exec.CommandContext(t.Context(), "install", "-D", relayBinary(t), dir+"/bin/cdc-relay"))

	const want = `host "orders.db.internal" of source.postgres.dsn does not resolve` // it has read the configuration, the secret and the environment
	shell := exec.CommandContext(t.Context(), "env", "-C", dir+"/etc/cdc-relay/orders.secrets", "PATH="+dir+"/bin:/usr/bin:/bin",
		"sh", "-c", inInstall(t, "\ncd /etc/cdc-relay/orders.secrets\n"))
	if out, _ := shell.CombinedOutput(); !strings.Contains(string(out), want) {
		t.Errorf("cdc-relay check in root's shell: %s", out)
	}

	tool := testenv.Tool(t, "systemd-analyze")
	boot := exec.CommandContext(t.Context(), "unshare", "--pid", "--mount", "--fork", "--mount-proc", "--kill-child",
		"sh", "-c", bootScript, "sh", dir, systemdFiles(tool)+"/systemd")
	boot.Env = slices.Concat(tool.Env, []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"})
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	testenv.Must(t, err)
	defer log.Close()
	boot.Stdout, boot.Stderr = log, log
	testenv.Must(t, boot.Start())
	defer func() { _, _ = boot.Process.Kill(), boot.Wait() }()

	url := "http://127.0.0.1:" + port
	ctx, cancel := context.WithTimeout(t.Context(), cdctest.Patience(time.Minute))
	defer cancel()
	if err := cdctest.Await(ctx, want, func(ctx context.Context) (bool, error) {
		return strings.Contains(get(ctx, url+"/readyz"), want), nil
	}); err != nil {
		t.Fatalf("%v; the relay says %q\n%s", err, get(t.Context(), url+"/readyz"), read(t, log.Name()))
	}
	if !strings.Contains(get(ctx, url+"/metrics"), "\nprocess_start_time_seconds ") {
		t.Error("the unit hides from the relay when it started, so CdcRelayRestarting never fires")
	}
	upgrade := regexp.MustCompile("package .* then `(.*)`").FindStringSubmatch(read(t, root+"/docs/upgrade.md"))[1]
	systemd := strings.TrimSpace(read(t, fmt.Sprintf("/proc/%d/task/%[1]d/children", boot.Process.Pid)))
	inside := exec.CommandContext(ctx, "nsenter", "--mount", "--pid", "--target", systemd, "sh", "-exc", upgradeScript, "sh", upgrade)
	inside.Env = slices.Concat(tool.Env, []string{"PATH=" + filepath.Dir(tool.Path) + ":/usr/bin:/bin"})
	if out, err := inside.CombinedOutput(); err != nil {
		t.Errorf("%q restarts the wrong relays: %v\n%s", upgrade, err, out)
	}
}

// inInstall returns the rest of the block of docs/install.md after a text.
func inInstall(t *testing.T, after string) string {
	t.Helper()
	_, text, _ := strings.Cut(read(t, root+"/docs/install.md"), after)
	text, _, _ = strings.Cut(text, "```\n")
	return text
}

// get returns what url answers, or the error.
func get(ctx context.Context, url string) string {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err.Error()
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return err.Error()
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return err.Error()
	}
	return string(body)
}
