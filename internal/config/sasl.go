package config

import (
	"cmp"
	"net/url"
	"strings"
)

// OAuth says where a token for OAUTHBEARER comes from: exactly one of token_url, token and token_command is set.
type OAuth struct {
	// The token endpoint, for the grant "client credentials".
	TokenURL string `yaml:"token_url,omitempty" jsonschema:"example=https://login.example.com/oauth2/token"`
	// The client ID.
	ClientID string `yaml:"client_id,omitempty" jsonschema:"example=cdc-relay"`
	// The client secret. Read again for every token.
	ClientSecret Secret `yaml:"client_secret,omitempty" jsonschema:"example=${file:/run/secrets/oauth}"`
	// The scopes to ask for.
	Scopes []string `yaml:"scopes,omitempty" jsonschema:"example=kafka"`
	// More parameters of the request, such as audience.
	Params map[string]string `yaml:"params,omitempty"`
	// For the token endpoint.
	TLS *TLS `yaml:"tls,omitempty" jsonschema_extras:"x-optional=true"`
	// The token itself.
	Token Secret `yaml:"token,omitempty" jsonschema:"example=${file:/run/secrets/token}"`
	// In place of token.
	TokenCommand Command `yaml:"token_command,omitempty" jsonschema:"minItems=1"`
	// SASL extensions, such as logicalCluster of Confluent Cloud.
	Extensions map[string]string `yaml:"extensions,omitempty"`
}

// plain returns the host of a token endpoint on another machine that is asked without TLS, or "".
func (o *OAuth) plain() string {
	u, err := url.Parse(o.TokenURL)
	if err != nil || u.Scheme != "http" {
		return ""
	}
	return elsewhere([]string{u.Hostname() + ":" + cmp.Or(u.Port(), "80")})
}

// AWS says by which account the relay authenticates to Amazon MSK. The keys are those that AWS's tools find: of the environment, of
// ~/.aws, of the pod, of the container or of the instance.
type AWS struct {
	// The region of the cluster.
	Region string `yaml:"region" jsonschema:"required,minLength=1,example=eu-west-1"`
	// A role to assume. Absent: the account itself.
	RoleARN string `yaml:"role_arn,omitempty" jsonschema:"example=arn:aws:iam::123456789012:role/cdc-relay"`
	// The profile of ~/.aws. Not together with role_arn.
	Profile string `yaml:"profile,omitempty"`
}

// sasl checks that the settings are those of the mechanism.
func (d *document) sasl(s *SASL) {
	const path = "kafka.sasl"
	if s == nil {
		return
	}
	d.command(s.PasswordCommand, &s.Password, path+".password")
	token := s.Mechanism == MechanismOAuth || s.Mechanism == MechanismMSK
	switch {
	case d.bad(path + ".mechanism"):
	case token && (s.Username != "" || !s.Password.IsZero() || s.PasswordCommand != nil):
		d.report(path, "remove username and password", "has a username or a password, which %s does not use", s.Mechanism)
	case !token && s.Username == "":
		d.report(path+".username", "set it, such as cdc-relay", "is missing")
	case !token && s.Password.IsZero() && s.PasswordCommand == nil:
		d.report(path+".password", "set it, such as ${file:/run/secrets/kafka}", "is missing")
	case s.Mechanism == MechanismOAuth && s.OAuth == nil:
		d.report(path+".oauth", "set token_url, client_id and client_secret there, or token", "is missing, and OAUTHBEARER needs it")
	case s.Mechanism == MechanismMSK && s.AWS == nil:
		d.report(path+".aws", "set region there", "is missing, and AWS_MSK_IAM needs it")
	}
	if s.OAuth != nil {
		d.oauth(s, path+".oauth")
	}
	if s.AWS != nil {
		d.aws(s, path+".aws")
	}
}

func (d *document) oauth(s *SASL, path string) {
	o := s.OAuth
	d.tls(o.TLS, path+".tls")
	d.command(o.TokenCommand, &o.Token, path+".token")
	given := !o.Token.IsZero() || o.TokenCommand != nil
	switch {
	case s.Mechanism != MechanismOAuth && !d.bad("kafka.sasl.mechanism"):
		d.report(path, "remove it, or set kafka.sasl.mechanism to OAUTHBEARER", "has no effect with %s", s.Mechanism)
	case d.badBelow(path):
	case o.TokenURL != "" && given:
		d.report(path+".token_url", "keep one of them", "is set beside a token")
	case o.TokenURL == "" && !given:
		d.report(path+".token_url", "set it, or token, or token_command", "is missing")
	case given && (o.ClientID != "" || !o.ClientSecret.IsZero() || o.Scopes != nil || o.Params != nil || o.TLS != nil):
		d.report(path, "remove client_id, client_secret, scopes, params and tls, or set token_url", "has settings of a token endpoint beside a token")
	case o.TokenURL != "":
		d.tokenEndpoint(o, path)
	}
	if _, reserved := o.Extensions["auth"]; reserved { // by RFC 7628
		d.report(path+".extensions.auth", "use another name", "is not a name of a SASL extension")
	}
}

func (d *document) tokenEndpoint(o *OAuth, path string) {
	u, err := url.Parse(o.TokenURL)
	switch {
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.RawQuery != "":
		d.report(path+".token_url", "write it as for example https://login.example.com/oauth2/token, and parameters in "+path+".params",
			"is not an https:// address without user and parameters")
	case o.ClientID == "":
		d.report(path+".client_id", "set it", "is missing")
	case o.ClientSecret.IsZero():
		d.report(path+".client_secret", "set it, such as ${file:/run/secrets/oauth}", "is missing")
	}
}

func (d *document) aws(s *SASL, path string) {
	switch {
	case s.Mechanism != MechanismMSK && !d.bad("kafka.sasl.mechanism"):
		d.report(path, "remove it, or set kafka.sasl.mechanism to AWS_MSK_IAM", "has no effect with %s", s.Mechanism)
	case s.AWS.RoleARN != "" && s.AWS.Profile != "":
		d.report(path+".profile", "keep one of them: a profile may name a role", "is set beside role_arn")
	case s.AWS.RoleARN != "" && !strings.HasPrefix(s.AWS.RoleARN, "arn:"):
		d.report(path+".role_arn", "write it as arn:aws:iam::123456789012:role/cdc-relay", "is not the ARN of a role")
	}
}
