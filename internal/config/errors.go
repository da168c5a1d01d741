package config

import "github.com/cdc-relay/cdc-relay/internal/cdc"

// Errors says what to do with an event that cannot be published. stop: the relay stops before it and names it; dead_letter: it is
// kept in the topic of dead letters, with the later events of its key; drop: it is counted, logged and not published.
type Errors struct {
	// A row without a topic and without a matching route.
	Unroutable cdc.Policy `yaml:"unroutable" jsonschema:"enum=stop,enum=dead_letter,enum=drop,default=stop"`
	// A malformed row. Default: as unroutable.
	Malformed cdc.Policy `yaml:"malformed,omitempty" jsonschema:"enum=stop,enum=dead_letter,enum=drop" jsonschema_extras:"x-default=as unroutable"`
	// The topic does not exist.
	UnknownTopic cdc.Policy `yaml:"unknown_topic" jsonschema:"enum=stop,enum=dead_letter,enum=drop,default=stop"`
	// The event is larger than its topic allows.
	TooLarge cdc.Policy `yaml:"too_large" jsonschema:"enum=stop,enum=dead_letter,enum=drop,default=stop"`
	// A broker rejects the event for another reason that retries cannot fix.
	Rejected cdc.Policy `yaml:"rejected" jsonschema:"enum=stop,enum=dead_letter,enum=drop,default=stop"`
	// IDs of events that are not published.
	Skip []string `yaml:"skip,omitempty" jsonschema:"example=018f4e3c-7a10-7cc0-8000-2c7d3b0f9a41"`
	// When the relay must stop: end the process, or keep it running, not ready, without retries.
	OnStop OnStop `yaml:"on_stop" jsonschema:"enum=exit,enum=park,default=exit"`
}

// OnStop is what a relay does when it must stop.
type OnStop string

// The choices.
const (
	OnStopExit OnStop = "exit"
	OnStopPark OnStop = "park"
)
