// Package chaostest plays random histories of the whole engine, and judges them from outside.
//
// A history has a few processes of one bot, which share a checkpoint store and a snapshot store. It has one or two
// sessions, so that calls meet. Clients send inputs, send them again, resume, recover, abandon, delete and skip
// deliveries. Between each process and the stores lies a network. It loses requests and replies, keeps them back,
// delivers requests twice, and delivers copies long after their senders have given up. Processes stop, die and are
// replaced. Leases are taken away as if they had expired. Functions of the bot fail. Time passes.
//
// At the end the network is whole again. The copies on their way arrive, and one process finishes all unfinished work.
// Then the history is judged. The judge knows the answers to callers, the calls of the bot's Deliver, the requests that
// the stores have granted, and the data in the stores. It never looks into the engine. The laws are in laws.go.
//
// [Play] plays one history on stores in memory, in a bubble of testing/synctest. A scheduler makes one step at a time:
// it waits until every goroutine of every process is blocked, and then a random source picks the next event. So a seed
// always makes the same history, and an hour of it takes no time. [PlayOnServers] plays on stores that need the real
// clock. There the seed decides the events, but not their order.
package chaostest
