// Package cdc has the types that the relay's stages share: positions, batches of rows, messages and errors. Of the project it imports
// only mysqljson, which prints a form of values.
//
// Ownership passes from stage to stage. A source fills a [Batch] and passes it on; the router reads it and fills a [Routed],
// whose messages point into the batch's arena; the sink holds the Routed until every message is durable; the relay then
// calls [Batch.Release], which returns the arena to the source. No stage writes to an arena after the source has passed the
// batch on.
package cdc
