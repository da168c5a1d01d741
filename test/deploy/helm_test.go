package deploy

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
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
	configs     map[string]*core.ConfigMap
	all         map[string][]meta.Object // by kind
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
	r := &release{deployments: map[string]*apps.Deployment{}, configs: map[string]*core.ConfigMap{}, all: map[string][]meta.Object{}}
	for document := range strings.SplitSeq(text, "\n---\n") {
		r.add(t, strings.TrimPrefix(document, "---\n"))
	}
	return r
}

// add decodes an object strictly: a field that Kubernetes does not know is an error.
func (r *release) add(t *testing.T, document string) {
	t.Helper()
	var kind meta.TypeMeta
	if err := yaml.Unmarshal([]byte(document), &kind); err != nil {
		t.Fatalf("%v\n%s", err, document)
	}
	object := map[string]meta.Object{
		"apps/v1 Deployment": &apps.Deployment{}, "policy/v1 PodDisruptionBudget": &policy.PodDisruptionBudget{},
		"v1 ConfigMap": &core.ConfigMap{}, "v1 Secret": &core.Secret{}, "v1 Service": &core.Service{},
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
	switch object := object.(type) {
	case *apps.Deployment:
		r.deployments[object.Name] = object
	case *core.ConfigMap:
		r.configs[object.Name] = object
	}
	r.all[kind.Kind] = append(r.all[kind.Kind], object)
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
			if err := yaml.Unmarshal([]byte(read(t, values)), &want); err != nil {
				t.Fatal(err)
			}
			if len(r.deployments) != len(want.Databases) {
				t.Errorf("%d Deployments for %d databases", len(r.deployments), len(want.Databases))
			}
			for name, d := range r.deployments {
				checkPods(t, d)
				checkConfig(t, r.configs[name].Data["cdc-relay.yaml"], d.Labels["cdc-relay/database"])
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
	for _, probe := range []*core.Probe{c.LivenessProbe, c.ReadinessProbe} {
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

func TestChartRunsOneRelayWithACheckpointFile(t *testing.T) {
	t.Parallel()
	r := render(t, "--values", chart+"/ci/mysql-file-values.yaml")
	d := r.deployments["test-cdc-relay-billing"]
	if *d.Spec.Replicas != 1 || d.Spec.Strategy.Type != apps.RecreateDeploymentStrategyType {
		t.Errorf("%d relays, replaced by %s", *d.Spec.Replicas, d.Spec.Strategy.Type)
	}
	if len(r.all["PersistentVolumeClaim"]) != 1 || len(r.all["PodDisruptionBudget"]) != 0 {
		t.Errorf("%d claims, %d budgets", len(r.all["PersistentVolumeClaim"]), len(r.all["PodDisruptionBudget"]))
	}
	standby := render(t, "--values", chart+"/ci/postgres-values.yaml")
	d = standby.deployments["test-cdc-relay-orders"]
	if *d.Spec.Replicas != 2 || d.Spec.Strategy.Type != apps.RollingUpdateDeploymentStrategyType || len(standby.all["PodDisruptionBudget"]) != 1 {
		t.Errorf("%d relays, replaced by %s, %d budgets", *d.Spec.Replicas, d.Spec.Strategy.Type, len(standby.all["PodDisruptionBudget"]))
	}
}

func TestChartProbesAPortWithoutPassword(t *testing.T) {
	t.Parallel()
	r := render(t, "--values", chart+"/ci/monitoring-values.yaml")
	c := r.deployments["test-cdc-relay-orders"].Spec.Template.Spec.Containers[0]
	if port := c.ReadinessProbe.HTTPGet.Port.StrVal; port != "health" {
		t.Errorf("the probe asks port %s", port)
	}
	if !strings.Contains(r.configs["test-cdc-relay-orders"].Data["cdc-relay.yaml"], "health_listen: :9465") {
		t.Error("the relay does not listen for the probe")
	}
}

func TestChartInstallsTheAlerts(t *testing.T) {
	t.Parallel()
	r := render(t, "--values", chart+"/ci/monitoring-values.yaml", "--set-file", "prometheusRule.rules="+root+"/deploy/prometheus/rules.yaml")
	if len(r.all["ServiceMonitor"]) != 1 || len(r.all["PrometheusRule"]) != 1 {
		t.Fatalf("%d ServiceMonitors, %d PrometheusRules", len(r.all["ServiceMonitor"]), len(r.all["PrometheusRule"]))
	}
	var want monitoring.PrometheusRuleSpec
	if err := yaml.UnmarshalStrict([]byte(read(t, root+"/deploy/prometheus/rules.yaml")), &want); err != nil {
		t.Fatal(err)
	}
	if got := r.all["PrometheusRule"][0].(*monitoring.PrometheusRule).Spec; !reflect.DeepEqual(got, want) {
		t.Errorf("the chart installs other rules: %+v", got)
	}
}

func TestChartNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	const orders = "databases: [{name: orders, config: {source: {postgres: {dsn: x}}"
	for name, c := range map[string]struct{ values, want string }{
		"unknown key":               {"replica: 2", "additional properties 'replica' not allowed"},
		"unknown key of a database": {"databases: [{name: orders, replica: 2}]", "at '/databases/0': additional properties 'replica' not allowed"},
		"unknown section":           {orders + ", kafak: {}}}]", "at '/databases/0/config': additional properties 'kafak' not allowed"},
		"unknown setting":           {"config: {kafka: {broker: [x]}}", "at '/config/kafka': additional properties 'broker' not allowed"},
		"name of a database":        {"databases: [{name: Orders_DB}]", "at '/databases/0/name': 'Orders_DB' does not match pattern"},
		"database twice":            {orders + "}}, {name: orders, config: {source: {postgres: {dsn: x}}}}]", "database orders stands twice in databases"},
		"no source":                 {"databases: [{name: orders}]", "database orders has no source: set source.postgres or source.mysql in its config"},
		"file beside the volume":    {orders + ", checkpoint: {file: /position}}}]", "checkpoint.file is /position, which is not on the volume: put it below /var/lib/cdc-relay/"},
		"file and standby":          {orders + ", checkpoint: {file: /var/lib/cdc-relay/p}}, replicas: 2}]", "database orders: a checkpoint file has one relay: remove replicas"},
		"no endpoint":               {orders + ", http: {listen: ''}}}]", "database orders: http.listen is \"\", without a port"},
		"no rules":                  {"prometheusRule: {enabled: true}", "prometheusRule.rules is empty: add --set-file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			values := filepath.Join(t.TempDir(), "values.yaml")
			write(t, values, c.values)
			out, err := helm(t, "template", "test", chart, "--kube-version", "1.31.0", "--values", values).CombinedOutput()
			if err == nil || !strings.Contains(string(out), c.want) {
				t.Errorf("%v\n%swant %s", err, out, c.want)
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
		text := read(t, path)
		for name, part := range want {
			encoded, err := json.Marshal(part)
			if err != nil {
				t.Fatal(err)
			}
			text = generatedLine(name).ReplaceAllLiteralString(text, `    "`+name+`": `+string(encoded)+",")
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
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
