// Package bottest has what the tests of the engine share: small bots, the stores that outlive their processes, and a
// vendor that is paid. The tests in memory stand beside package orchestrator. Those that need a server, a driver or
// another process are in internal/test/engine.
package bottest
