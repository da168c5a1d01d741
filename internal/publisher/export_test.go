package publisher

import "github.com/cdc-relay/cdc-relay/internal/cdc"

// Bounds that only unit tests change.

func (o *Options) SetInFlight(n int)      { o.inFlight = n }
func (o *Options) SetMaxBatchBytes(n int) { o.maxBatchBytes = n }
func (o *Options) SetMaxBuffered(n int)   { o.maxBuffered = n }

func SampledTrace(m *cdc.Message) string { return sampledTrace(m) }
