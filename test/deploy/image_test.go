//go:build linux

package deploy

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

// image is a container image in an OCI layout.
type image struct {
	layout   string
	manifest struct {
		Config descriptor   `json:"config"`
		Layers []descriptor `json:"layers"`
	}
	config struct {
		Architecture, OS string
		Config           struct {
			User, WorkingDir string
			Env              []string
			Entrypoint, Cmd  []string
			Labels           map[string]string
		}
	}
}

type descriptor struct {
	Digest string `json:"digest"`
}

// builder runs buildah with all its state in one directory.
type builder struct {
	dir  string
	tool *exec.Cmd
}

func newBuilder(t *testing.T) *builder {
	t.Helper()
	b := &builder{dir: t.TempDir(), tool: testenv.Tool(t, "buildah")}
	write(t, b.dir+"/.config/containers/policy.json", `{"default": [{"type": "insecureAcceptAnything"}]}`)
	write(t, filepath.Join(b.dir, "storage.conf"), fmt.Sprintf("[storage]\ndriver = \"vfs\"\ngraphroot = %q\nrunroot = %q\n", b.dir+"/graph", b.dir+"/run"))
	return b
}

func (b *builder) run(t *testing.T, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = root
	cmd.Env = slices.Concat(b.tool.Env, []string{
		"HOME=" + b.dir, "GOPATH=" + goEnv(t, "GOPATH"), "GOCACHE=" + goEnv(t, "GOCACHE"),
		"CONTAINERS_STORAGE_CONF=" + b.dir + "/storage.conf",
		"CONTAINERS_REGISTRIES_CONF=/dev/null", "BUILDAH_ISOLATION=chroot",
	})
	output(t, cmd)
}

// export returns the image that was built as name.
func (b *builder) export(t *testing.T, name string) *image {
	t.Helper()
	img := &image{layout: filepath.Join(b.dir, name)}
	b.run(t, b.tool.Path, "push", name, "oci:"+img.layout)
	var index struct{ Manifests []descriptor }
	decode(t, filepath.Join(img.layout, "index.json"), &index)
	decode(t, img.blob(index.Manifests[0]), &img.manifest)
	decode(t, img.blob(img.manifest.Config), &img.config)
	return img
}

func (img *image) blob(d descriptor) string {
	return filepath.Join(img.layout, "blobs", strings.ReplaceAll(d.Digest, ":", "/"))
}

// unpack writes the image's files below dir.
func (img *image) unpack(t *testing.T, dir string) {
	t.Helper()
	for _, layer := range img.manifest.Layers {
		output(t, exec.CommandContext(t.Context(), "tar", "-xpzf", img.blob(layer), "-C", dir))
	}
}

func TestImageRunsWithReadOnlyRootAsPlainUser(t *testing.T) {
	t.Parallel()
	needsRoot(t)
	b := newBuilder(t)
	b.run(t, "make", "image", "IMAGE=relay", "ENGINE="+b.tool.Path, "VERSION=v1.2.3")
	img := b.export(t, "relay")
	if c := img.config; c.OS != "linux" || c.Architecture != runtime.GOARCH || c.Config.User != "65532:65532" {
		t.Errorf("%+v", c)
	}
	for label, want := range map[string]string{"title": "cdc-relay", "version": "v1.2.3", "licenses": "Apache-2.0"} {
		if got := img.config.Config.Labels["org.opencontainers.image."+label]; got != want {
			t.Errorf("label %s is %q, want %q", label, got, want)
		}
	}
	bundle := t.TempDir()
	rootfs := filepath.Join(bundle, "rootfs")
	testenv.Must(t, os.Mkdir(rootfs, 0o755))
	img.unpack(t, rootfs)
	if _, err := os.Stat(rootfs + "/bin"); err == nil {
		t.Error("the image has a directory for programs that are not the relay")
	}
	for name, want := range map[string]string{
		"usr/bin/cdc-relay": "-rwxr-xr-x 0", "tmp": "drwxrwxrwt 0", "var/lib/cdc-relay": "drwxr-xr-x 65532",
		"etc/ssl/certs/ca-certificates.crt": "-rw-r--r-- 0",
	} {
		if got := output(t, exec.CommandContext(t.Context(), "stat", "-c", "%A %u", filepath.Join(rootfs, name))); got != want+"\n" {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	hasLicences(t, rootfs+"/usr/bin/cdc-relay", read(t, rootfs+"/usr/share/doc/cdc-relay/THIRD_PARTY_LICENSES"))
	c := newContainer(t, img, bundle)
	if out := output(t, c.command("version")); !strings.HasPrefix(out, "cdc-relay v1.2.3") {
		t.Errorf("version prints %q", out)
	}
	c.publishesAnEvent(t)
}

// capital is written with a "!" in the module cache.
var capital = regexp.MustCompile("[A-Z]")

// hasLicences checks that texts has one for each module of the binary, for Go and for the page's charts.
func hasLicences(t *testing.T, binary, texts string) {
	t.Helper()
	info, err := buildinfo.ReadFile(binary)
	if err != nil || len(info.Deps) < 20 {
		t.Fatal(info, err)
	}
	want := []string{"go/", "internal/admin/page/"}
	for _, m := range info.Deps {
		path := capital.ReplaceAllStringFunc(m.Path, func(c string) string { return "!" + strings.ToLower(c) })
		want = append(want, path+"@"+m.Version+"/")
	}
	for _, path := range want {
		if !strings.Contains(texts, "\n===== "+path) && !strings.HasPrefix(texts, "===== "+path) {
			t.Errorf("no licence of %s", path)
		}
	}
}

// The binary of another architecture is not run: any file shows which one the Containerfile takes.
func TestContainerfileTakesTheBinaryOfTheArchitecture(t *testing.T) {
	t.Parallel()
	b, files := newBuilder(t), t.TempDir()
	for _, name := range []string{"cdc-relay-linux-amd64", "cdc-relay-linux-arm64", "ca-certificates.crt", "LICENSE", "THIRD_PARTY_LICENSES", "empty/.keep", "rootfs/tmp/.keep"} {
		write(t, filepath.Join(files, name), name)
	}
	b.run(t, b.tool.Path, "build", "--platform", "linux/arm64", "-f", "deploy/Containerfile", "-t", "arm", files)
	img, unpacked := b.export(t, "arm"), t.TempDir()
	img.unpack(t, unpacked)
	if got := read(t, unpacked+"/usr/bin/cdc-relay"); got != "cdc-relay-linux-arm64" || img.config.Architecture != "arm64" {
		t.Errorf("the image for %s holds %s", img.config.Architecture, got)
	}
}

// container runs an image with crun: its root read-only, its user and environment, the network of this machine.
type container struct {
	t          *testing.T
	img        *image
	bundle     string
	etc, state string
	runs       int
}

func newContainer(t *testing.T, img *image, bundle string) *container {
	t.Helper()
	return &container{t: t, img: img, bundle: bundle, etc: t.TempDir(), state: t.TempDir()}
}

// command returns a command that runs the image with args.
func (c *container) command(args ...string) *exec.Cmd {
	c.t.Helper()
	_ = os.Remove(filepath.Join(c.bundle, "config.json"))
	spec := testenv.Tool(c.t, "crun", "spec")
	spec.Dir = c.bundle
	output(c.t, spec)
	var config map[string]any
	decode(c.t, filepath.Join(c.bundle, "config.json"), &config)
	c.adapt(config, args)
	encoded, err := json.Marshal(config)
	testenv.Must(c.t, err)
	write(c.t, filepath.Join(c.bundle, "config.json"), string(encoded))
	c.runs++
	return c.crun("run", "--bundle", c.bundle, c.id())
}

func (c *container) id() string { return fmt.Sprintf("cdc-relay-%d-%d", os.Getpid(), c.runs) }

func (c *container) adapt(config map[string]any, args []string) {
	config["root"] = map[string]any{"path": "rootfs", "readonly": true}
	process := config["process"].(map[string]any)
	process["terminal"] = false
	process["env"] = c.img.config.Config.Env
	process["args"] = append(c.img.config.Config.Entrypoint, args...)
	process["user"] = map[string]any{"uid": 65532, "gid": 65532}
	config["mounts"] = append(config["mounts"].([]any),
		map[string]any{"destination": "/etc/cdc-relay", "source": c.etc, "type": "bind", "options": []string{"bind", "ro"}},
		map[string]any{"destination": "/tmp", "source": "tmpfs", "type": "tmpfs", "options": []string{"mode=1777"}})
	linux := config["linux"].(map[string]any)
	linux["namespaces"] = []map[string]string{{"type": "pid"}, {"type": "ipc"}, {"type": "uts"}, {"type": "mount"}}
}

// crun returns a command that runs crun where it sees control groups of version 2 only: it refuses a mix of both.
func (c *container) crun(args ...string) *exec.Cmd {
	c.t.Helper()
	cmd := testenv.Tool(c.t, "crun", append([]string{"--root", c.state, "--cgroup-manager", "disabled"}, args...)...)
	script := `mount -t cgroup2 none /sys/fs/cgroup && exec "$0" "$@"`
	shell := exec.CommandContext(c.t.Context(), "unshare", append([]string{"--mount", "sh", "-c", script, cmd.Path}, cmd.Args[1:]...)...)
	shell.Env = cmd.Env
	return shell
}

// publishesAnEvent runs the container's relay between a real PostgreSQL and a fake Kafka.
func (c *container) publishesAnEvent(t *testing.T) {
	t.Helper()
	db := testenv.Postgres(t, testenv.PostgresOptions{})
	kafka, err := kfake.NewCluster(kfake.NumBrokers(1))
	testenv.Must(t, err)
	defer kafka.Close()
	write(t, filepath.Join(c.etc, "password"), "unused")
	write(t, filepath.Join(c.etc, "cdc-relay.yaml"), fmt.Sprintf(`source: {postgres: {dsn: %q, password: "${file:password}"}}
kafka: {brokers: [%q]}
topics: {create: {partitions: 1, replication_factor: 1}}
routes: [{topic: orders}]
http: {listen: "127.0.0.1:0"}
`, db.DSN("postgres", ""), kafka.ListenAddrs()[0]))
	output(t, c.command("setup"))

	var logs bytes.Buffer
	relay := c.command(c.img.config.Config.Cmd...)
	relay.Stdout, relay.Stderr = &logs, &logs
	testenv.Must(t, relay.Start())
	stop := c.crun("kill", c.id(), "TERM")
	testenv.Must(t, db.Exec(t.Context(), "postgres", `INSERT INTO outbox (event_id, aggregate_type, aggregate_id, event_type, occurred_at, payload)
VALUES (gen_random_uuid(), 'Order', 'o-1', 'OrderPlaced', now(), '{}')`))
	consumeOne(t, kafka.ListenAddrs(), "orders")
	output(t, stop)
	if err := relay.Wait(); err != nil {
		t.Errorf("the relay ended with %v:\n%s", err, &logs)
	}
}
