package config_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/cdc-relay/cdc-relay/internal/config"
	"github.com/cdc-relay/cdc-relay/internal/testenv"
)

const minimal = `
source: {postgres: {dsn: "postgres://relay:s3cret@db:5433/Orders-EU"}}
kafka: {brokers: ["k1:9092", "k2:9092"]}
`

func environment(vars map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		v, ok := vars[name]
		return v, ok
	}
}

func mustParse(t *testing.T, text string, vars map[string]string) *config.Config {
	t.Helper()
	c, err := config.Parse("cdc-relay.yaml", []byte(text), environment(vars))
	testenv.Must(t, err)
	return c
}

// TestShow holds the defaults of these files to golden files, TestDefaultNames the names that are made of the database's.
func TestMinimal(t *testing.T) {
	c := mustParse(t, minimal, nil)
	dsn, err := c.Source.Postgres.ConnString(t.Context())
	if err != nil || dsn != "postgres://relay:s3cret@db:5433/Orders-EU" {
		t.Errorf("dsn %q %v", dsn, err)
	}
	c = mustParse(t, minimalMySQL, nil)
	dsn, err = c.Source.MySQL.ConnString(t.Context())
	if err != nil || dsn != "relay:s3cret@tcp(db:3307)/Orders-EU" {
		t.Errorf("dsn %q %v", dsn, err)
	}
	if c.Database() != "Orders-EU" || c.Role() != "relay" {
		t.Errorf("%s %s", c.Database(), c.Role())
	}
	if named := mustParse(t, onMySQLNamed, nil); named.Source.MySQL.ID != "o" {
		t.Errorf("%+v", named.Source.MySQL)
	}
}

func TestManyProblems(t *testing.T) {
	var file strings.Builder
	file.WriteString(good)
	for i := range 1 << 16 {
		fmt.Fprintf(&file, "unknown%d: 1\n", i)
	}
	_, err := config.Parse("x.yaml", []byte(file.String()), environment(nil))
	var problems config.Problems
	if !errors.As(err, &problems) || len(problems) != 100 {
		t.Fatalf("have %d", len(problems))
	}
	if lines := strings.Split(err.Error(), "\n"); len(lines) != 21 || lines[20] != "x.yaml: and more; fix these first" {
		t.Errorf("have %d lines, the last %q", len(lines), lines[len(lines)-1])
	}
	if p := problems[0]; p.Line != 3 || p.Column != 1 || p.Path != "unknown0" {
		t.Errorf("have %+v", p)
	}
}

// TestOptionalSections holds the two marks of a section that may be absent to each other: the pointer in
// the struct, and x-optional in the schema.
func TestOptionalSections(t *testing.T) {
	var check func(typ reflect.Type, path string)
	check = func(typ reflect.Type, path string) {
		for f := range typ.Fields() {
			inner := f.Type
			pointer := inner.Kind() == reflect.Pointer
			for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice {
				inner = inner.Elem()
			}
			if inner.Kind() != reflect.Struct || inner == reflect.TypeFor[config.Secret]() {
				continue
			}
			if optional := strings.Contains(f.Tag.Get("jsonschema_extras"), "x-optional=true"); optional != pointer {
				t.Errorf("%s.%s: pointer %t, x-optional %t", path, f.Name, pointer, optional)
			}
			check(inner, path+"."+f.Name)
		}
	}
	check(reflect.TypeFor[config.Config](), "Config")
}
