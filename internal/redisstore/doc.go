// Package redisstore holds what the stores on Redis have in common: how keys are named, how scripts are run and what
// their verdicts mean, and how an index is read. It knows no contract.
package redisstore
