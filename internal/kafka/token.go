package kafka

import (
	"context"
	"time"
)

// TokenFetch gets a new token and the time at which it expires; the zero time means unknown.
type TokenFetch func(context.Context) (token string, expires time.Time, err error)

// tokenCache holds the token by which the relay authenticates: from a token endpoint (OAuth 2.0 client credentials) or from AWS (IAM of
// Amazon MSK). It is reused for half of its life, so that the connections to all brokers share it and an endpoint that is away for a while
// is not noticed.
type tokenCache struct {
	fetch   TokenFetch
	free    chan struct{} // holds one value while nobody fetches
	token   string
	renew   time.Time
	expires time.Time
}

// tokenMargin is how long a token must be valid for to be worth sending.
const tokenMargin = 2 * time.Second

// CachedToken returns a function that fetches a token when there is none, when half of its life is over, or when a broker has refused it. If
// that fails, the old token is used until it expires. The function is safe for concurrent use; one caller at a time fetches.
func CachedToken(fetch TokenFetch) func(ctx context.Context, refused string) (string, error) {
	c := &tokenCache{fetch: fetch, free: make(chan struct{}, 1)}
	c.free <- struct{}{}
	return c.get
}

func (c *tokenCache) get(ctx context.Context, refused string) (string, error) {
	select {
	case <-c.free:
		defer func() { c.free <- struct{}{} }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	now := time.Now()
	if now.Before(c.renew) && c.token != refused {
		return c.token, nil
	}
	token, expires, err := c.fetch(ctx)
	switch {
	case err != nil && c.token != "" && now.Add(tokenMargin).Before(c.expires):
		return c.token, nil
	case err != nil:
		return "", err
	}
	c.token, c.expires, c.renew = token, expires, now.Add(expires.Sub(now)/2) // in the past if it is not known when the token expires
	return token, nil
}
