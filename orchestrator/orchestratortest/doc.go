// Package orchestratortest lets a bot be tested against crashes and bad stores, without a server and in no time.
//
// A [World] outlives its processes: a checkpoint store, a snapshot store, a ledger and a turn log, in memory.
// [Start] starts a process of a bot in it. The process dies before or after a step that the test names. Then another
// process goes on:
//
//	func TestRefundIsPaidOnce(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			var w orchestratortest.World
//			first := orchestratortest.Start(&w, refunds(), options)
//			first.DieAfter("pay", 1)
//			_, _ = first.Bot.Execute(t.Context(), "s", in, nil)
//			second := orchestratortest.Start(&w, refunds(), options)
//			res, err := second.Bot.Execute(t.Context(), "s", in, nil)
//			…
//
// Under testing/synctest the second process waits until the first counts as dead, and for retries and timeouts, and the
// test does not. Without synctest, [Process.Expire] ends the lease of the first.
//
// # Steps
//
// A step is a function of the bot, or a call of a store. The functions are the intents by their names, "Begin",
// "Route", "Evaluate", "Merge", "Migrate", "Deliver" and "History". If "look up" is an intent, "look up item 2" is its
// run for the second item of ForEach, and "look up Then" is its Then. The calls of the stores are
//
//	checkpoint.Claim  .Renew  .Held  .Append  .Mark  .Delete  .Turns  .Sessions
//	snapshot.Begin    .Adopt  .Save  .Delete  .Runs
//	ledger.Adopt      .Issue  .Finish  .Record  .Effects
//	turnlog.Record
//
// turnlog.Record is a step of a bot with a turn log: see [World]. A turn calls it for started, for each Turn.Record,
// and for settled.
//
// The stores of a process are behind the faults of the test. So they do not join: a turn settles by checkpoint.Append,
// and then its run is deleted by snapshot.Delete.
//
// The package imports no package testing. It is for tests all the same.
package orchestratortest
