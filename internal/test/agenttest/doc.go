// Package agenttest has the tests of the sessions of agents that each set of stores passes. It is for tests of this
// repository.
package agenttest
