// Package config reads the configuration file. A [Config] exists only parsed and validated: [Load] and
// [Parse] return one with every default filled in, or [Problems] that name each fault of the file with
// its line and column.
//
// The struct fields, their tags and their comments describe the settings. schema.json and docs/configuration.md are
// generated from them. [Parse] checks the file's YAML nodes against schema.json, and decodes only what is valid.
//
//	file → YAML nodes → present names → walk: keys, types, references, defaults → decode → validate across keys
//
// References, ${env:NAME} or ${file:PATH}, are expanded in values after parsing, so that no value can break the file's
// structure. An expanded value never appears in an error. Settings that may contain a secret are a [Secret], which reads
// its files again each time it is revealed.
package config

//go:generate go test -run "^(TestGenerated|TestShow)$" -update .
