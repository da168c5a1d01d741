package config

import (
	"fmt"
	"io"

	"go.yaml.in/yaml/v4"
)

// Show writes the effective configuration as YAML: defaults filled in, references expanded, secrets
// as "***" and the connection string without its password.
func (c *Config) Show(w io.Writer) error {
	out, err := yaml.Dump(c)
	if err != nil {
		return fmt.Errorf("show configuration: %w", err)
	}
	if _, err := w.Write(out); err != nil {
		return fmt.Errorf("show configuration: %w", err)
	}
	return nil
}
