// Package openai shows a bot that asks its model through the client of a vendor, openai-go, and records the replies.
//
// The refund bot has a smaller client of its own, because openai-go takes longer to compile than the four packages that
// come next: a driver of Redis, one of PostgreSQL, and SQLite in Go.
package openai
