package config

import (
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Changed returns the settings that differ from those of another file: "kafka.brokers" for example, also for a change within a
// list. It tells no value. A file that a setting names may have another content meanwhile: that is no change.
func (c *Config) Changed(other *Config) []string {
	was, is := c.settings(), other.settings()
	paths := map[string]bool{}
	for path, text := range was {
		paths[path] = is[path] != text
	}
	for path, text := range is {
		paths[path] = was[path] != text
	}
	maps.DeleteFunc(paths, func(_ string, changed bool) bool { return !changed })
	return slices.Sorted(maps.Keys(paths))
}

// settings returns every setting of a checked file with its text, in which a secret file is its path.
func settings(path string, n *yaml.Node) map[string]string {
	if n.Kind != yaml.MappingNode {
		return map[string]string{path: textOf(n)}
	}
	all := map[string]string{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		maps.Copy(all, settings(dotted(path, n.Content[i].Value), n.Content[i+1]))
	}
	return all
}

func textOf(n *yaml.Node) string {
	var b strings.Builder
	b.WriteString(n.Value + "\x00")
	for _, part := range n.Content {
		b.WriteString(textOf(part))
	}
	return b.String()
}
