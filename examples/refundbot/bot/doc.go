// Package bot has the agents: one talks with customers and refunds orders, one asks people to agree to large refunds,
// and a concierge stands before the first.
package bot
