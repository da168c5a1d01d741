// Package cdc is the vocabulary that every stage of the relay speaks: positions, batches of rows as
// a source hands them on, and messages as a sink takes them. It is a leaf: it imports nothing of ours,
// and knows no database and no broker.
//
// Ownership runs one way. A source fills a [Batch] and gives it away; the router reads it and fills a
// [Routed], whose messages point into the batch's arena; the sink holds the Routed until every message
// is durable; the relay then calls [Routed.Release], which gives the arena back to the source. No stage
// writes to an arena after the batch was handed on.
package cdc
