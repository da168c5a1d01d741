package config

import "time"

// RunCommand runs a command with another time limit.
func RunCommand(c Command, timeout time.Duration) (string, error) { return c.run(timeout) }
