// Package provider is a payment provider for the demonstration: a server that pays, and the client that the bot calls.
//
// Each refund carries an idempotency key. The server pays once for each key, keeps its payments in a file, and counts
// how often each was asked for. It can be told to misbehave, as real providers do: see [Mode].
package provider
