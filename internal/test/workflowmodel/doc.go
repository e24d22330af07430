// Package workflowmodel is a model of the order of steps of workflow runs. It explores every interleaving of two
// processes, a client, the clock and the faults within the bounds of a scenario, and says which invariant a state or a
// step breaks. It also finds states from which no run can reach its end although nothing fails any more.
//
// The statements of the store are those of package workflow, and the moves of a process are those of package flow, in
// their order. [Rules] change one of them at a time: the model must convict each change.
//
// It is not modelled: branches, retries, drift, counts of crashes, sweeps, and two different events.
package workflowmodel
