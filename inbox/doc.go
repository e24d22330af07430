// Package inbox keeps what others leave for a session: answers to what it has asked, and wishes that a run stop.
//
// Who leaves an item needs no ownership of the session, and nothing runs because of it. A turn looks when it is its
// time to. So a bot can wait for a person for days: its turn settles with the question in its state, and holds nothing.
// The answer lies in the inbox, survives deploys, and is the next input.
//
//	first, err := store.Post(ctx, inbox.Item{
//		Key: key, Kind: inbox.Answer, ID: question.ID, By: user, Shown: inbox.Sum(question.Text), Data: answer,
//	})
//
// Of several items with one kind and id the first stays, also if they are posted at once: two people who answer one
// question do not both decide. By tells them apart, so that a call whose reply was lost can be repeated.
//
// Shown is the sum of what a person saw when answering. Who takes the item compares it with what is asked by then, and
// drops an answer to something else.
//
// This package holds the contract, Store, and an implementation in memory, Memory, for tests and for one process.
// Packages postgres, sqlite and redis keep items in their databases. A store of your own should pass inboxtest.Run,
// which is the contract in executable form, as these do. docs/recipes.md has a bot that waits for a person.
//
// An inbox knows nothing of turns. If a session is deleted, its items stay until Remove is called for the session.
//
// # Errors
//
//	ErrNotFound Item: there is none
//	ErrInvalid  an argument that no backend takes; nothing is written
//	ErrSchema   tables are missing or too old
//	ErrDamaged  no store wrote the stored item as it is; a *DamagedError if it is one item
//	ErrRefused  the server took no write; repeat it later
//
// Any other error is the backend's own, wrapped. After such an error the call may or may not have taken effect. It is
// safe to repeat the call with the same arguments.
package inbox
