package config

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// hidden is printed instead of a secret.
const hidden = "***"

// Secret is a value that is never shown: printing, logging or encoding it yields "***", for a connection string the
// string without its password, and for what a command prints nothing. The zero Secret is unset.
type Secret struct {
	// reveal is a function so that nothing that prints memory by reflection finds the value.
	reveal func(context.Context) (string, error)
	shown  string
}

// Reveal returns the value, "" if unset. It reads the secret's files again, and fails if one cannot be read. Call it at
// every connect, and keep the result out of logs and errors. ctx ends the wait for a command.
func (s Secret) Reveal(ctx context.Context) (string, error) {
	if s.reveal == nil {
		return "", nil
	}
	return s.reveal(ctx)
}

// IsZero reports whether the file does not set the secret. YAML leaves it out then, also if a command prints it.
func (s Secret) IsZero() bool { return s.shown == "" }

// String returns what may be shown.
func (s Secret) String() string { return s.shown }

// Format prints what may be shown, whatever the verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.shown) }

// MarshalText encodes what may be shown; encoding/json uses it too.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.shown), nil }

// MarshalYAML encodes what may be shown.
func (s Secret) MarshalYAML() (any, error) { return s.shown, nil }

// LogValue logs what may be shown.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.shown) }

// tagFile marks the parts of a secret that are read from a file.
const tagFile = "!file"

// UnmarshalYAML decodes the result of secretNode: a sequence of texts and files.
func (s *Secret) UnmarshalYAML(n *yaml.Node) error {
	parts := n.Content
	*s = Secret{shown: hidden, reveal: func(context.Context) (string, error) {
		var b strings.Builder
		for _, part := range parts {
			text := part.Value
			if part.Tag == tagFile {
				var err error
				if text, err = readSecret(part.Value); err != nil {
					return "", cdc.Fixable("create it, or correct the path", "read secret file %s: %w", part.Value, err)
				}
			}
			b.WriteString(text)
		}
		if b.Len() == 0 && len(parts) > 0 { // as a file is while it is written; without a password Redis admits the default user
			return "", cdc.Fixable("write the secret into it", "secret file %s is empty", parts[0].Value)
		}
		return b.String(), nil
	}}
	return nil
}
