// Package openai shows a bot that asks its model through the client of a vendor, openai-go, and records the replies. An
// agent needs no such bot: see models/openai.
package openai
