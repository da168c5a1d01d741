package kafka

import (
	"fmt"

	"github.com/xdg-go/scram"
)

// scramClient gives sarama the SCRAM exchange of xdg-go/scram.
type scramClient struct {
	mechanism string
	conv      *scram.ClientConversation
}

// Begin implements sarama.SCRAMClient.
func (c *scramClient) Begin(user, password, authzID string) error {
	hash := scram.SHA256
	if c.mechanism == ScramSHA512 {
		hash = scram.SHA512
	}
	client, err := hash.NewClient(user, password, authzID)
	if err != nil {
		return fmt.Errorf("prepare SCRAM credentials: %w", err)
	}
	c.conv = client.NewConversation()
	return nil
}

// Step implements sarama.SCRAMClient.
func (c *scramClient) Step(challenge string) (string, error) {
	answer, err := c.conv.Step(challenge)
	if err != nil {
		return "", fmt.Errorf("exchange SCRAM messages: %w", err)
	}
	return answer, nil
}

// Done implements sarama.SCRAMClient.
func (c *scramClient) Done() bool { return c.conv.Done() }
