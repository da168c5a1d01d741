package cdctest

import (
	"fmt"
	"maps"
	"strings"
)

// Config is a relay's configuration file.
type Config map[string]any

// Set sets the value at a path such as "errors.too_large". A nil value takes the setting out.
func (c Config) Set(path string, value any) {
	node := c
	for {
		name, rest, deeper := strings.Cut(path, ".")
		if !deeper && value == nil {
			delete(node, name)
			return
		}
		if !deeper {
			node[name] = value
			return
		}
		child, ok := node[name].(Config)
		if !ok {
			child = Config{}
			if m, isMap := node[name].(map[string]any); isMap {
				child = Config(m)
			} else if node[name] != nil {
				panic(fmt.Sprintf("config: %s is no mapping", name))
			}
			node[name] = child
		}
		node, path = child, rest
	}
}

// clone copies the mappings, not the values in them.
func (c Config) clone() Config {
	copied := maps.Clone(c)
	for name, value := range copied {
		switch child := value.(type) {
		case Config:
			copied[name] = child.clone()
		case map[string]any:
			copied[name] = Config(child).clone()
		}
	}
	return copied
}
