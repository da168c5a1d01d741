package testenv

import (
	"context"
	"fmt"
	"io"
)

// redisMajor is the oldest supported version.
const redisMajor = 7

// getRedis gets the server for a start that shows no progress.
func getRedis(ctx context.Context) (*program, error) {
	s, err := newStore(io.Discard)
	if err != nil {
		return nil, err
	}
	return s.redisProgram(ctx)
}

// redisProgram gets Redis 7 or newer from this machine or from Debian's packages.
func (s *store) redisProgram(ctx context.Context) (*program, error) {
	for _, major := range []int{redisMajor, redisMajor + 1} {
		if found := beside(ctx, "redis-server", major, "/usr/bin"); found != nil {
			return found, nil
		}
	}
	found, err := s.debianProgram(ctx, "redis-server", "usr/bin", "redis-server", "redis-tools")
	if err != nil {
		return nil, fmt.Errorf("Redis 7 is missing and could not be fetched: install redis-server (on Debian `sudo apt-get install redis-server`): %w", err)
	}
	return found, nil
}
