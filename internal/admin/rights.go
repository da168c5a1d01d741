package admin

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"

	"go.yaml.in/yaml/v4"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// errNoRights answers who is not known.
func errNoRights() error {
	return cdc.Fixable("set http.web_config to a file with basic_auth_users, or with client certificates that are verified",
		"dead letters, events and checks are shown only where callers authenticate")
}

// access is how the web config makes sure who a caller is: by a password, by a certificate, by both, or not at all.
type access struct{ password, certificate bool }

func accessOf(path string) (access, error) {
	if path == "" {
		return access{}, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return access{}, fmt.Errorf("read http.web_config: %w", err)
	}
	var c struct {
		Users map[string]string `yaml:"basic_auth_users"`
		TLS   struct {
			ClientAuth string `yaml:"client_auth_type"`
		} `yaml:"tls_server_config"`
	}
	if err := yaml.Unmarshal(text, &c); err != nil {
		return access{}, fmt.Errorf("read http.web_config: %w", err)
	}
	return access{len(c.Users) > 0, c.TLS.ClientAuth == "RequireAndVerifyClientCert"}, nil
}

// validateActions refuses actions that anybody could take.
func validateActions(o *Options) error {
	if !o.Actions {
		return nil
	}
	by, err := accessOf(o.WebConfig)
	if err == nil && by == (access{}) {
		err = cdc.Fixable("set http.web_config to a file with basic_auth_users, or with client_auth_type: RequireAndVerifyClientCert, or remove http.actions",
			"http.actions would let anybody who reaches http.listen drop dead letters")
	}
	if err != nil {
		return cdc.Stop(cdc.ClassConfig, "http_actions", err, "")
	}
	return nil
}

// caller is who sent a request that the web config let in; "": nobody who is known. A name whose password nobody asked for counts for
// nothing. The file is read for each request: a change needs no restart.
func (a *api) caller(r *http.Request) string {
	by, err := accessOf(a.o.WebConfig)
	if err != nil {
		return ""
	}
	if user, _, ok := r.BasicAuth(); ok && by.password {
		return user
	}
	if by.certificate && r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		return r.TLS.VerifiedChains[0][0].Subject.String()
	}
	return ""
}

// asker is the key of the caller in a request's context.
type asker struct{}

// known serves only callers who have authenticated.
func (a *api) known(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		user := a.caller(r)
		if user == "" {
			refuse(w, http.StatusForbidden, errNoRights())
			return
		}
		next(w, r.WithContext(context.WithValue(r.Context(), asker{}, user)))
	}
}

// mayNot is why a caller may not act; nil: it may.
func (a *api) mayNot(user string) error {
	switch {
	case user == "":
		return errNoRights()
	case !a.o.Actions:
		return cdc.Fixable("set http.actions to true", "the page is read-only")
	case len(a.o.Operators) > 0 && !slices.Contains(a.o.Operators, user):
		return cdc.Fixable("ask one of them, or add the user to http.operators", "user %q may look, and only http.operators may act", user)
	}
	return nil
}

// operators serves only callers who may act. It is inside of known.
func (a *api) operators(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		user, _ := r.Context().Value(asker{}).(string)
		if err := a.mayNot(user); err != nil {
			refuse(w, http.StatusForbidden, err)
			return
		}
		next(w, r)
	}
}
