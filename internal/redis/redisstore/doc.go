// Package redisstore holds the common parts of the stores on Redis: how keys are named, how scripts run, the meaning of
// their verdicts, and how an index is read. It knows no contract.
//
// Package redis says what Redis cannot promise, and what holds for the keys of all stores. Each package lists its own.
package redisstore
