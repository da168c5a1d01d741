package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Partitions says how the daily partitions of the outbox tables are kept.
type Partitions struct {
	// Days after today that have a partition.
	Ahead int `yaml:"ahead" jsonschema:"minimum=1,maximum=366,default=14"`
	// The age at which a day is removed, such as 30d, at least one day, once its events are published and the position is saved. Empty: never.
	TTL string `yaml:"ttl" jsonschema:"example=30d"`
	// How often the leader checks the partitions.
	Every time.Duration `yaml:"every" jsonschema:"default=1h"`
	// false: detach and keep a day past ttl, for an archive.
	Drop bool `yaml:"drop" jsonschema:"default=true"`
}

// minTTL keeps a slip of the pen from removing today's events.
const minTTL = 24 * time.Hour

// Age returns TTL as a duration; 0 if nothing is removed.
func (p *Partitions) Age() time.Duration {
	d, _ := ParseAge(p.TTL) // valid by now
	return d
}

// ParseAge parses a TTL: days ("30d"), or a duration as Go writes it. "" is 0.
func ParseAge(s string) (time.Duration, error) {
	if s == "" {
		return 0, nil
	}
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		if err != nil || n == 0 {
			return 0, fmt.Errorf("%q is not a number of days", s)
		}
		return time.Duration(n) * 24 * time.Hour, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("%q is not an age such as 30d or 36h", s)
	}
	return d, nil
}

func (d *document) partitions(p *Partitions) {
	if p == nil {
		return
	}
	switch age, err := ParseAge(p.TTL); {
	case err != nil:
		d.wrong("partitions.ttl", "an age such as 30d or 36h, or nothing", d.text("partitions.ttl"))
	case age > 0 && age < minTTL:
		d.report("partitions.ttl", "make it 1d or longer; then `cdc-relay retention run --ttl "+p.TTL+" --force` removes days once", "is shorter than a day; it is %s", d.text("partitions.ttl"))
	}
}
