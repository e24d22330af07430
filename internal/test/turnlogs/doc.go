// Package turnlogs has the turn logs that docs/turnlog.md shows as adapters of third parties. Its tests hold them to
// the contract, and the page to their text.
package turnlogs
