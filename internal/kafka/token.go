package kafka

import (
	"context"
	"sync"
	"time"
)

// TokenFetch gets a new token and the time at which it expires; the zero time means unknown. It ends in time by itself.
type TokenFetch func(context.Context) (token string, expires time.Time, err error)

// tokenMargin is how long a token must be valid for to be worth sending.
const tokenMargin = 2 * time.Second

// CachedToken returns a function that fetches a token, from a token endpoint (OAuth 2.0 client credentials) or from AWS (IAM of Amazon MSK),
// when there is none, when half of its life is over, or when a broker has refused it. If that fails, the old token is used until it expires.
// So the connections to all brokers share a token, and an endpoint that is away for a while is not noticed. The function is safe for
// concurrent use; one caller at a time fetches.
func CachedToken(fetch TokenFetch) func(ctx context.Context, refused string) (string, error) {
	var (
		mu             sync.Mutex
		token          string
		renew, expires time.Time
	)
	return func(ctx context.Context, refused string) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		now := time.Now()
		if now.Before(renew) && token != refused {
			return token, nil
		}
		fetched, until, err := fetch(ctx)
		switch {
		case err == nil:
			token, expires, renew = fetched, until, now.Add(until.Sub(now)/2) // in the past if it is not known when the token expires
		case token == "" || !now.Add(tokenMargin).Before(expires):
			return "", err
		}
		return token, nil
	}
}
