// Package chaostest plays random histories of the whole engine, and judges them from outside.
//
// A history has a few processes of one bot, which share a checkpoint store and a snapshot store. It has one or two
// sessions, so that calls meet. Clients send inputs, send them again, resume, recover, abandon, delete and skip
// deliveries. Between each process and the stores lies a network. It loses requests and replies, keeps them back,
// delivers requests twice, and delivers copies long after their senders have given up. Processes stop, die and are
// replaced. Leases are taken away as if they had expired. Functions of the bot fail. Time passes.
//
// In the end the network is whole again. The copies that are still on their way arrive, and one process finishes what
// is left. Then the history is judged. The judge knows what callers were told, what the bot's Deliver was handed,
// which requests the stores have granted, and what the stores hold. It never looks into the engine. The laws are in
// laws.go.
//
// [Play] plays one history on stores in memory, in a bubble of testing/synctest. A scheduler makes one step at a time:
// it waits until every goroutine of every process is blocked, and then a random source picks what happens next. So a
// seed always makes the same history, and an hour of it takes no time. [PlayOnServers] plays on stores that need the
// real clock. There the seed decides what is done, but not in which order it meets.
package chaostest
