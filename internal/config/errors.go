package config

import (
	"cmp"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// Errors says what to do with an event that cannot be published. stop: the relay stops before it and names it; dead_letter: it is
// kept in the topic of dead letters, with the later events of its key; drop: it is counted, logged and not published.
type Errors struct {
	// For each of the following that is not set. `errors: dead_letter` is short for it alone.
	Default cdc.Policy `yaml:"default" jsonschema:"enum=stop,enum=dead_letter,enum=drop,default=stop"`
	// A row without a topic and without a matching route.
	Unroutable cdc.Policy `yaml:"unroutable,omitempty" jsonschema:"enum=stop,enum=dead_letter,enum=drop" jsonschema_extras:"x-default=default"`
	// A malformed row.
	Malformed cdc.Policy `yaml:"malformed,omitempty" jsonschema:"enum=stop,enum=dead_letter,enum=drop" jsonschema_extras:"x-default=default"`
	// The topic does not exist.
	UnknownTopic cdc.Policy `yaml:"unknown_topic,omitempty" jsonschema:"enum=stop,enum=dead_letter,enum=drop" jsonschema_extras:"x-default=default"`
	// The event is larger than its topic allows.
	TooLarge cdc.Policy `yaml:"too_large,omitempty" jsonschema:"enum=stop,enum=dead_letter,enum=drop" jsonschema_extras:"x-default=default"`
	// A broker rejects the event for another reason that retries cannot fix.
	Rejected cdc.Policy `yaml:"rejected,omitempty" jsonschema:"enum=stop,enum=dead_letter,enum=drop" jsonschema_extras:"x-default=default"`
	// IDs of events that are not published, whatever their table.
	Skip []string `yaml:"skip,omitempty" jsonschema:"example=018f4e3c-7a10-7cc0-8000-2c7d3b0f9a41"`
	// When the relay must stop: end the process, or keep it running, not ready, without retries.
	OnStop string `yaml:"on_stop" jsonschema:"enum=exit,enum=park,default=exit"`
}

// fill sets the policies that follow the default.
func (e *Errors) fill() {
	for _, p := range e.bySetting() {
		*p = cmp.Or(*p, e.Default)
	}
}

func (e *Errors) bySetting() map[string]*cdc.Policy {
	return map[string]*cdc.Policy{
		"unroutable": &e.Unroutable, "malformed": &e.Malformed, "unknown_topic": &e.UnknownTopic, "too_large": &e.TooLarge, "rejected": &e.Rejected,
	}
}

// Policies returns the policies as the stages take them.
func (e *Errors) Policies() cdc.Policies {
	return cdc.Policies{Unroutable: e.Unroutable, Malformed: e.Malformed, UnknownTopic: e.UnknownTopic, TooLarge: e.TooLarge, Rejected: e.Rejected}
}
