// Package retry says how often something is tried again, and how long to wait before.
//
// A [Policy] is plain data for whoever does the trying: this package neither calls anything nor waits. An error marked
// with [Permanent] asks to be the last, whatever the policy has left.
package retry
