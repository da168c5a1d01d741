package kafka

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-msk-iam-sasl-signer-go/signer"

	"github.com/cdc-relay/cdc-relay/internal/cdc"
)

// MSKToken says which AWS account signs tokens for Amazon MSK. The keys are those that the AWS SDK finds.
type MSKToken struct {
	Region string
	// RoleARN is a role to assume; "" is none.
	RoleARN string
	// Profile is one of ~/.aws; "" is the default.
	Profile string
}

// Fetch signs a token.
func (m *MSKToken) Fetch(ctx context.Context) (string, time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, tokenTimeout)
	defer cancel()
	token, expires, err := m.sign(ctx)
	if err != nil {
		return "", time.Time{}, cdc.Fixable("give the relay AWS credentials: a role of its pod or instance, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "+
			"or kafka.sasl.aws.profile", "cannot sign a token for Amazon MSK (%s)", strings.Join(strings.Fields(err.Error()), " "))
	}
	return token, time.UnixMilli(expires), nil
}

func (m *MSKToken) sign(ctx context.Context) (token string, expires int64, err error) {
	switch {
	case m.RoleARN != "":
		token, expires, err = signer.GenerateAuthTokenFromRole(ctx, m.Region, m.RoleARN, "cdc-relay")
	case m.Profile != "":
		token, expires, err = signer.GenerateAuthTokenFromProfile(ctx, m.Region, m.Profile)
	default:
		token, expires, err = signer.GenerateAuthToken(ctx, m.Region)
	}
	if err != nil {
		return "", 0, fmt.Errorf("sign: %w", err)
	}
	return token, expires, nil
}
