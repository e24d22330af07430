// Package bot is a support bot that refunds orders.
//
// It finds out what the customer wants, looks the order and the customer up at once, decides, pays, and writes the
// reply. Above a limit a person approves first: the turn settles with the proposal in its state, and the answer is the
// next input, minutes or a deploy later, in any process.
//
// The refund is an effect with the order as its key. It is paid once, however often it is asked for, in whichever
// session, and whatever crashes. If nobody can tell whether it was paid, the turn waits for a person.
package bot
