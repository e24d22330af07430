// Package scripted is a model that replies by a script: for tests, examples and demonstrations. It needs no key and no
// network.
//
//	model := scripted.New(
//		scripted.On(`refund (\S+)`,
//			scripted.Call("order", `{"number":"{1}"}`),
//			scripted.Call("refund", `{"number":"{1}","cents":4200}`),
//			scripted.Say("Your money: {result}")),
//		scripted.On("", scripted.Say("I only know refunds.")),
//	)
//
// The next reply follows from what was said, and from nothing else. So one model serves any number of sessions at once,
// and a process that is started again goes on where the one before was killed. It counts the replies since the user has
// said something: a summary or a window that hides some of them sets the script back.
package scripted
