// Package approval asks people. A bot that needs a person settles its turn with a [Question] in its state. A [Desk]
// reads the questions from the newest settled state, takes the answers, and runs each of them as an input of the bot:
//
//	desk := &approval.Desk[State]{Bot: bot, Questions: questions, Answer: input, Inbox: db.Inbox()}
//	asked, err := desk.Asked(ctx, "s-1")
//	…
//	res, err := desk.Execute(ctx, "s-1", asked[0].ID, approval.Answer{Data: yes, Sum: asked[0].Sum, By: "ann"})
//
// It is for consoles and front ends of any kind. Package turnhttp has a Desk behind its routes of questions.
//
// An answer comes with the sum of its question, which says in which session it was asked and what was shown. It is left
// in the inbox first: it is durable, and of several the first stays. Then it is run as the input that Desk.Answer makes
// of it, and is removed when the turn has settled. The request id of this input is made from the question's id and its
// sum, so that the answer is taken once. The same answer by another person is ErrAnswered: it was not the first. If the
// process dies in between, the answer lies in the inbox: the same answer again runs it, and so does [Desk.Run], which
// belongs beside the watch of package bootdrain. An answer that has outlived its session is taken by no later session
// of this name, as long as all turns of that session are kept.
package approval
