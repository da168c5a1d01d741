// Package token gets the tokens by which the relay authenticates to Kafka: from a token endpoint (OAuth 2.0 client
// credentials) or from AWS (IAM of Amazon MSK). A token is reused for half of its life, so that the connections to all
// brokers share it and an endpoint that is away for a while is not noticed.
package token

import (
	"context"
	"time"
)

// Fetch gets a new token and the time at which it expires; the zero time means unknown.
type Fetch func(context.Context) (token string, expires time.Time, err error)

// cache holds a token.
type cache struct {
	fetch   Fetch
	free    chan struct{} // holds one value while nobody fetches
	token   string
	renew   time.Time
	expires time.Time
}

// margin is how long a token must be valid for to be worth sending.
const margin = 2 * time.Second

// Cached returns a function that fetches a token when there is none, or when half of its life is over. If that fails, the old
// token is used until it expires. The function is safe for concurrent use; one caller at a time fetches.
func Cached(fetch Fetch) func(context.Context) (string, error) {
	c := &cache{fetch: fetch, free: make(chan struct{}, 1)}
	c.free <- struct{}{}
	return c.get
}

func (c *cache) get(ctx context.Context) (string, error) {
	select {
	case <-c.free:
		defer func() { c.free <- struct{}{} }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	now := time.Now()
	if now.Before(c.renew) {
		return c.token, nil
	}
	token, expires, err := c.fetch(ctx)
	switch {
	case err != nil && c.token != "" && now.Add(margin).Before(c.expires):
		return c.token, nil
	case err != nil:
		return "", err
	}
	c.token, c.expires, c.renew = token, expires, time.Time{}
	if !expires.IsZero() {
		c.renew = now.Add(expires.Sub(now) / 2)
	}
	return token, nil
}
