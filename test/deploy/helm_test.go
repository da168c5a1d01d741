package deploy

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

const chart = root + "/deploy/helm/cdc-relay"

var update = flag.Bool("update", false, "write the part of values.schema.json that is generated")

// release is what the chart makes of a values file.
type release struct {
	deployments map[string]*apps.Deployment
	objects     map[string]any // by kind and name
}

func helm(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := testenv.Tool(t, "helm", args...)
	dir := t.TempDir()
	cmd.Env = append(cmd.Env, "HELM_CACHE_HOME="+dir, "HELM_CONFIG_HOME="+dir, "HELM_DATA_HOME="+dir)
	return cmd
}

func render(t *testing.T, args ...string) *release {
	t.Helper()
	text := output(t, helm(t, append([]string{"template", "test", chart, "--kube-version", "1.31.0"}, args...)...))
	r := &release{deployments: map[string]*apps.Deployment{}, objects: map[string]any{}}
	for document := range strings.SplitSeq(text, "\n---\n") {
		r.add(t, strings.TrimPrefix(document, "---\n"))
	}
	return r
}

// add decodes an object strictly: a field that Kubernetes does not know is an error.
func (r *release) add(t *testing.T, document string) {
	t.Helper()
	var kind meta.PartialObjectMetadata
	var fields map[string]any
	if err := errors.Join(yaml.Unmarshal([]byte(document), &kind), yaml.Unmarshal([]byte(document), &fields)); err != nil {
		t.Fatalf("%v\n%s", err, document)
	}
	object := map[string]meta.Object{
		"apps/v1 Deployment": &apps.Deployment{}, "batch/v1 Job": &batch.Job{},
		"policy/v1 PodDisruptionBudget": &policy.PodDisruptionBudget{},
		"v1 ConfigMap":                  &core.ConfigMap{}, "v1 Secret": &core.Secret{}, "v1 Service": &core.Service{},
		"v1 ServiceAccount": &core.ServiceAccount{}, "v1 PersistentVolumeClaim": &core.PersistentVolumeClaim{},
		"networking.k8s.io/v1 NetworkPolicy":      &networking.NetworkPolicy{},
		"monitoring.coreos.com/v1 ServiceMonitor": &monitoring.ServiceMonitor{},
		"monitoring.coreos.com/v1 PrometheusRule": &monitoring.PrometheusRule{},
	}[kind.APIVersion+" "+kind.Kind]
	if object == nil {
		t.Fatalf("the chart makes a %s %s", kind.APIVersion, kind.Kind)
	}
	encoded, err := yaml.YAMLToJSONStrict([]byte(document)) // an error for a key that stands twice
	if err != nil {
		t.Fatalf("%s: %v\n%s", kind.Kind, err, document)
	}
	if unknown, err := kjson.UnmarshalStrict(encoded, object); err != nil || len(unknown) > 0 {
		t.Fatalf("%s: %v %v\n%s", kind.Kind, err, unknown, document)
	}
	if d, ok := object.(*apps.Deployment); ok {
		r.deployments[d.Name] = d
	}
	r.objects[kind.Kind+"/"+kind.Name] = fields
}

func TestChart(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(chart + "/ci/*-values.yaml")
	if err != nil || len(files) < 6 {
		t.Fatalf("%d values files, %v", len(files), err)
	}
	for _, values := range files {
		t.Run(strings.TrimSuffix(filepath.Base(values), "-values.yaml"), func(t *testing.T) {
			t.Parallel()
			output(t, helm(t, "lint", "--strict", chart, "--values", values))
			r := render(t, "--values", values)
			var want struct{ Databases []struct{ Name string } }
			decode(t, values, &want)
			if len(r.deployments) != len(want.Databases) {
				t.Errorf("%d Deployments for %d databases", len(r.deployments), len(want.Databases))
			}
			for name, d := range r.deployments {
				checkPods(t, d)
				text := r.objects["ConfigMap/"+name].(map[string]any)["data"].(map[string]any)["cdc-relay.yaml"].(string)
				checkConfig(t, text, d.Labels["cdc-relay/database"])
			}
		})
	}
}

func checkPods(t *testing.T, d *apps.Deployment) {
	t.Helper()
	for key, value := range d.Spec.Selector.MatchLabels {
		if d.Spec.Template.Labels[key] != value {
			t.Errorf("%s selects %s=%s, which its pods have not", d.Name, key, value)
		}
	}
	pod := d.Spec.Template.Spec
	c := pod.Containers[0]
	if !*pod.SecurityContext.RunAsNonRoot || !*c.SecurityContext.ReadOnlyRootFilesystem {
		t.Errorf("%s runs as root or may write to its root", d.Name)
	}
	ports := map[string]bool{}
	for _, p := range c.Ports {
		ports[p.Name] = p.ContainerPort > 0
	}
	for _, probe := range []*core.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
		if !ports[probe.HTTPGet.Port.StrVal] {
			t.Errorf("%s has a probe for port %s, which it has not", d.Name, probe.HTTPGet.Port.StrVal)
		}
	}
}

var fileReference = regexp.MustCompile(`\$\{file:([^}]+)\}`)

// checkConfig loads a rendered configuration as the relay does, with a file for each secret.
func checkConfig(t *testing.T, text, database string) {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "web.yaml"), "")
	write(t, filepath.Join(dir, "cdc-relay.yaml"), text)
	for _, m := range fileReference.FindAllStringSubmatch(text, -1) {
		write(t, filepath.Join(dir, m[1]), "postgres://relay@db/orders")
	}
	env := map[string]string{"DATABASE": database, "KAFKA": "kafka:9092"}
	if _, err := config.Load(filepath.Join(dir, "cdc-relay.yaml"), func(name string) (string, bool) {
		value, ok := env[name]
		return value, ok
	}); err != nil {
		t.Errorf("%v\n%s", err, text)
	}
}

// Each values file makes the objects of which testdata/chart.yaml has a part.
func TestChartMakes(t *testing.T) {
	t.Parallel()
	var releases []struct {
		Values  string
		Args    []string
		Objects map[string]any
	}
	testenv.Must(t, yaml.UnmarshalStrict([]byte(read(t, "testdata/chart.yaml")), &releases))
	for _, want := range releases {
		t.Run(want.Values, func(t *testing.T) {
			t.Parallel()
			r := render(t, append(want.Args, "--values", chart+"/ci/"+want.Values+"-values.yaml")...)
			if d := difference("", r.objects, want.Objects); d != "" {
				t.Error(d)
			}
		})
	}
}

// difference returns where fields are not as wanted. They may have others too; null is for one that must not be there.
func difference(path string, have, want any) string {
	switch want := want.(type) {
	case map[string]any:
		fields, _ := have.(map[string]any)
		for key := range want {
			if d := difference(path+" "+key, fields[key], want[key]); d != "" {
				return d
			}
		}
	case []any:
		items, _ := have.([]any)
		if len(items) != len(want) {
			return fmt.Sprintf("%s has %d items, want %d: %v", path, len(items), len(want), have)
		}
		for i := range want {
			if d := difference(fmt.Sprint(path, " ", i), items[i], want[i]); d != "" {
				return d
			}
		}
	default:
		if have != want {
			return fmt.Sprintf("%s is %v, want %v", path, have, want)
		}
	}
	return ""
}

func TestChartInstallsAlertsAndDashboard(t *testing.T) {
	t.Parallel()
	text := output(t, helm(t, "template", "test", chart, "--kube-version", "1.31.0", "--values", chart+"/ci/monitoring-values.yaml"))
	for file, indent := range map[string]string{"rules.yaml": "\n  ", "dashboard.json": "\n    "} {
		if !strings.Contains(text, indent+strings.ReplaceAll(strings.TrimSpace(read(t, chart+"/files/"+file)), "\n", indent)) {
			t.Errorf("the chart does not install %s", file)
		}
	}
}

func TestChartNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	var refused map[string]struct{ Values, Want string }
	testenv.Must(t, yaml.UnmarshalStrict([]byte(read(t, "testdata/chart_refused.yaml")), &refused))
	for name, c := range refused {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			values := filepath.Join(t.TempDir(), "values.yaml")
			write(t, values, c.Values)
			out, err := helm(t, "template", "test", chart, "--kube-version", "1.31.0", "--values", values).CombinedOutput()
			if err == nil || !strings.Contains(string(out), c.Want) {
				t.Errorf("%v\n%swant %s", err, out, c.Want)
			}
			t.Logf("%s", out)
		})
	}
}

// generatedLine is a part of the chart's schema for cdc-relay's own configuration. It comes from the schema of the
// relay, without required settings: a shared configuration and that of a database have parts of them.
func generatedLine(name string) *regexp.Regexp {
	return regexp.MustCompile(`(?m)^    "` + name + `": (.*)$`)
}

func TestChartSchemaHasEverySetting(t *testing.T) {
	t.Parallel()
	var relay map[string]any
	decode(t, root+"/internal/config/schema.json", &relay)
	want := map[string]any{"config": shape(relay)}
	for name, definition := range relay["$defs"].(map[string]any) {
		want[name] = shape(definition.(map[string]any))
	}
	path := chart + "/values.schema.json"
	if *update {
		values, text, _ := strings.Cut(read(t, path), `  "$defs": `)
		for name, part := range want {
			encoded, err := json.Marshal(part)
			testenv.Must(t, err)
			text = generatedLine(name).ReplaceAllLiteralString(text, `    "`+name+`": `+string(encoded)+",")
		}
		testenv.Must(t, os.WriteFile(path, []byte(values+`  "$defs": `+text), 0o600))
	}
	var have struct {
		Defs map[string]any `json:"$defs"`
	}
	decode(t, path, &have)
	for name := range want {
		if !reflect.DeepEqual(have.Defs[name], want[name]) {
			t.Errorf("$defs.%s of %s is not that of internal/config/schema.json: run go test ./test/deploy -run Schema -update", name, path)
		}
	}
}

// shape is a schema without descriptions, examples and required properties.
func shape(schema map[string]any) map[string]any {
	kept := map[string]any{}
	for key, value := range schema {
		switch key {
		case "type", "enum", "pattern", "$ref":
			kept[key] = value
		case "properties":
			properties := map[string]any{}
			for name, property := range value.(map[string]any) {
				properties[name] = shape(property.(map[string]any))
			}
			kept[key] = properties
		case "anyOf":
			kept[key] = shapes(value.([]any))
		case "items", "additionalProperties":
			kept[key] = value
			if inner, ok := value.(map[string]any); ok {
				kept[key] = shape(inner)
			}
		}
	}
	return kept
}

func shapes(schemas []any) []any {
	kept := make([]any, len(schemas))
	for i, schema := range schemas {
		kept[i] = shape(schema.(map[string]any))
	}
	return kept
}
