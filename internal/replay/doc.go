// Package replay publishes rows of the outbox tables once more: it reads them by SQL, in order of creation, and publishes them with a
// producer of its own. It has no position and no fence, and the relay goes on beside it.
package replay
