// Package retry says how often work is tried again, and how long to wait before each attempt.
//
// A [Policy] is plain data. The caller runs the attempts and does the waiting. If an error is marked with [Permanent],
// the caller should stop, although the policy allows more attempts. If it is marked with [After], the caller should
// wait for as long as the error says.
package retry
