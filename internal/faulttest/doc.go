// Package faulttest looks for what a table of examples misses in a store: long random histories against a model of the
// contract, concurrent ones against a linearizable specification, and renewals among other traffic.
//
//   - [CheckpointModel], [CheckpointSweepModel] and [CheckpointUnsettledModel] make one caller do everything,
//     in any order, and compare every verdict and every result with a model that was written from the contract's text.
//   - [CheckpointHistories] makes five workers claim, take over, settle and delete without any lock, and has porcupine
//     decide whether some order of their calls explains all replies.
//   - [RenewUnderLoad] renews hundreds of leases at once while others append, mark and steal.
//   - [SnapshotModel] compares a snapshot store with [snapshot.Memory], call by call, and [RacingBegins] races Begins.
//
// Every backend's tests call all of them. HOLDFAST_SOAK=1 makes them run about ten times longer.
package faulttest

import "os"

// Histories is how many histories a test checks: 30, or 300 with HOLDFAST_SOAK=1.
func Histories() int {
	if soak() {
		return 300
	}
	return 30
}

func soak() bool { return os.Getenv("HOLDFAST_SOAK") == "1" }
