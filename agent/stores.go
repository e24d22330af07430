package agent

import (
	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/stream"
	"github.com/holdfast-go/holdfast/transcript"
)

// A Database has all stores of an agent, as those of packages postgres and sqlite do.
type Database interface {
	Checkpoints() checkpoint.Store
	Snapshots() snapshot.Store
	Transcripts() transcript.Store
	Ledger() ledger.Ledger
	Inbox() inbox.Store
	Stream() stream.Store
}

// On returns the stores in a database. It leaves TurnLog out, which costs a commit for each phase of a turn.
func On(db Database) Stores {
	return Stores{
		Checkpoints: db.Checkpoints(), Snapshots: db.Snapshots(), Transcript: db.Transcripts(), Ledger: db.Ledger(),
		Inbox: db.Inbox(), Stream: db.Stream(),
	}
}
