// Package faulttest finds faults of a store that a table of examples misses. It uses long random histories against a
// model of the contract, concurrent histories against a linearizable specification, and renewals among other traffic.
//
//   - [CheckpointModel], [CheckpointSweepModel] and [CheckpointUnsettledModel] make one caller do everything,
//     in any order, and compare every verdict and every result with a model that was written from the contract's text.
//   - [CheckpointHistories] makes five workers claim, take over, settle and delete without any lock, and has porcupine
//     decide whether some order of their calls explains all replies.
//   - [RenewUnderLoad] renews hundreds of leases at once while others append, mark and steal.
//   - [SnapshotModel] compares a snapshot store with [snapshot.Memory], call by call, and [RacingBegins] races Begins.
//   - [WorkflowHistories] makes five owners work on one run, a quarter of the time under the fence of another.
//   - [TranscriptModel] compares a transcript with [transcript.Memory]. [TranscriptHistories] makes five workers append
//     to one session, copy to it, read it and trim it.
//   - [TurnLogModel] and [TurnLogHistories] do the like with a turn log.
//
// Every backend's tests call all of them. With HOLDFAST_SOAK=1 they run about thirty times longer.
package faulttest

import "os"

// Histories returns how many histories a test checks: 9, or 300 with HOLDFAST_SOAK=1.
func Histories() int {
	if soak() {
		return 300
	}
	return 9
}

func soak() bool { return os.Getenv("HOLDFAST_SOAK") == "1" }
