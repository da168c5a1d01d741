// Package config reads the configuration file. A [Config] exists only parsed and validated: [Load] and
// [Parse] return one with every default filled in, or [Problems] that name each fault of the file with
// its line and column.
//
// The struct fields, their tags and their comments are the only description of the settings. schema.json
// is generated from them, and so is docs/configuration.md; the file is checked against schema.json key
// by key ([Parse] walks the YAML nodes beside the schema), and only what passed is decoded.
//
//	file → YAML nodes → walk: keys, types, references, defaults → decode → validate across keys
//
// A reference, ${env:NAME} or ${file:PATH}, is expanded in values after parsing, so that no value can
// break the file's structure, and its expansion never appears in an error. What may hold a secret is a
// [Secret], which reads its files again each time it is revealed.
package config

//go:generate go test -run ^TestGenerated$ -update .
