package config

import (
	"maps"
	"slices"

	"go.yaml.in/yaml/v4"
)

// Changed returns the settings that differ from those of another file: "kafka.brokers" for example, also for a change within a
// list. It tells no value. A file that a setting names may have another content meanwhile: that is no change.
func (c *Config) Changed(other *Config) []string {
	was, is := c.settings(), other.settings()
	all := maps.Clone(was)
	maps.Copy(all, is)
	maps.DeleteFunc(all, func(path, _ string) bool { return was[path] == is[path] })
	return slices.Sorted(maps.Keys(all))
}

// settings returns every setting of a checked file with its text, in which a secret file is its path.
func settings(path string, n *yaml.Node) map[string]string {
	if n.Kind != yaml.MappingNode {
		text, _ := yaml.Dump(n) // which the file was parsed into
		return map[string]string{path: string(text)}
	}
	all := map[string]string{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		maps.Copy(all, settings(dotted(path, n.Content[i].Value), n.Content[i+1]))
	}
	return all
}
