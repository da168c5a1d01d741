package kafka

import (
	"fmt"

	"github.com/xdg-go/scram"
)

// scramClient gives sarama the SCRAM exchange of xdg-go/scram.
type scramClient struct {
	*scram.ClientConversation
	mechanism string
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
	c.ClientConversation = client.NewConversation()
	return nil
}
