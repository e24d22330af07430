package bot_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/examples/refundbot/bot"
	"github.com/holdfast-go/holdfast/examples/refundbot/model"
	"github.com/holdfast-go/holdfast/examples/refundbot/provider"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/turnhttp"
)

// Order and customer are looked up at once, and a small refund is paid at once.
func TestRefund(t *testing.T) {
	everywhere(t, func(t *testing.T, s *shop) {
		res := s.says("ada", "I want my money back for A-1007", "The refund of 49.90 for order A-1007 is paid.")
		if res.State.Receipt == "" || res.State.Customer == nil || res.Usage.Input == 0 || res.Usage.Cost == 0 {
			t.Errorf("state %+v, usage %+v", res.State, res.Usage)
		}
		var ran []string
		for _, step := range res.Steps {
			ran = append(ran, strings.Join(step.Next.Intents, "+"))
		}
		want := []string{"classify", "order+customer", "decide", "refund", "compose"}
		if !slices.Equal(slices.DeleteFunc(ran, func(s string) bool { return s == "" }), want) {
			t.Errorf("ran %q, want %q", ran, want)
		}
		s.pays.WantPaid(t, "A-1007")
	})
}

// The published bot repeated its first reply for ever, and did not end turns that are about something else.
func TestSmallTalk(t *testing.T) {
	everywhere(t, func(t *testing.T, s *shop) {
		first := s.ask("ada", "Hello")
		second := s.says("ada", "What do you think of the weather?", "I cannot help with that")
		if first.State.Reply == second.State.Reply || second.State.Category != model.Other {
			t.Errorf("%+v, then %+v", first.State, second.State)
		}
		s.pays.WantPaid(t)
	})
}

// Without the number of an order the bot asks for it, and the turn ends. The number alone is an answer then.
func TestNoOrder(t *testing.T) {
	everywhere(t, func(t *testing.T, s *shop) {
		s.says("ada", "I want a refund", "I need the number of the order")
		s.says("ada", "It is Z-9999", "I find no order")
		s.says("ada", "Sorry, 1013", "I find no order")
		s.says("ada", "A-1013", "The refund of 31.00 for order A-1013 is paid.")
		s.says("ada", "I want a refund for A-1099", "cannot be refunded any more")
		s.pays.WantPaid(t, "A-1013")
	})
}

// "Yes please" goes on with the order of before.
func TestYesPlease(t *testing.T) {
	everywhere(t, func(t *testing.T, s *shop) {
		s.says("ada", "Where is my order A-1013?", "Order A-1013, two books, is shipped.")
		s.says("ada", "Yes please", "The refund of 31.00 for order A-1013 is paid.")
		s.says("bob", "Where is my order A-1007?", "Shall I?")
		s.says("bob", "No, leave it", "All right")
		s.pays.WantPaid(t, "A-1013")
	})
}

// What is remembered of the customer is recalled, and of no other customer.
func TestRemembers(t *testing.T) {
	everywhere(t, func(t *testing.T, s *shop) {
		s.ask("ada", "I want a refund for A-1007")
		if res := s.ask("ada", "Hello"); len(res.State.Recalled) != 1 ||
			!strings.Contains(res.State.Recalled[0], "A-1007") {
			t.Errorf("recalled %q", res.State.Recalled)
		}
		if res := s.ask("bob", "Hello"); len(res.State.Recalled) > 0 {
			t.Errorf("bob hears %q", res.State.Recalled)
		}
	})
}

// A reply that promises too much is sent back, once.
func TestPromises(t *testing.T) {
	everywhere(t, func(t *testing.T, s *shop) {
		res := s.says("ada", "Where is A-1013? Can you guarantee that it comes?", "I cannot say more")
		if strings.Contains(res.State.Reply, "guarantee") {
			t.Errorf("the bot says %q", res.State.Reply)
		}
		n := 0
		for _, step := range res.Steps {
			if slices.Contains(step.Next.Intents, "compose") {
				n++
			}
		}
		if n != 2 {
			t.Errorf("compose ran %d times", n)
		}
	})
}

// After twelve turns the older ones become one message, and the conversation goes on.
func TestFifteenTurns(t *testing.T) {
	everywhere(t, func(t *testing.T, s *shop) {
		s.says("ada", "Where is my order A-1013?", "Shall I?")
		for i := range 13 {
			s.ask("ada", fmt.Sprintf("Hello %d", i))
		}
		all, err := s.stores.Messages().Of(t.Context(), "ada")
		if err != nil {
			t.Fatal(err)
		}
		// Twelve turns were due after the twelfth. Six of them were kept, and two came since.
		if len(all) != 1+2*8 || all[0].Role != message.RoleSystem ||
			!strings.Contains(all[0].Blocks[0].Text, "A-1013") {
			t.Errorf("%d messages, the first is %+v", len(all), all[0])
		}
		if res := s.says("ada", "I want a refund", "The refund of 31.00 for order A-1013 is paid."); res.Turn != 14 {
			t.Errorf("turn %d", res.Turn)
		}
		s.pays.WantPaid(t, "A-1013")
	})
}

// Whatever the provider does, the order is paid once, or the customer hears that it was not.
func TestProvider(t *testing.T) {
	everywhere(t, func(t *testing.T, s *shop) {
		s.mode(provider.Slow)
		s.says("ada", "I want a refund for B-101", "is paid")
		s.mode(provider.Lost) // the bot finds out by itself
		s.says("ada", "I want a refund for B-102", "is paid")
		s.mode(provider.Decline)
		s.says("ada", "I want a refund for B-103", "has declined the refund")
		s.mode(provider.OK)
		s.says("ada", "I want a refund for B-103", "is paid")
		s.pays.WantPaid(t, "B-101", "B-102", "B-103")
	})
}

// If the provider does not say whether it has paid, the turn waits for a person, and so does the session.
func TestInDoubt(t *testing.T) {
	for _, tt := range []struct {
		mode   provider.Mode
		answer ledger.Answer
		says   string
		paid   []string
	}{
		{provider.Timeout, ledger.Answer{Landed: true, Result: []byte(`"R-7"`)}, "The receipt is R-7", []string{"A-1007"}},
		{provider.Timeout, ledger.Answer{}, "is paid", []string{"A-1007"}},
		{provider.Fail, ledger.Answer{}, "is paid", []string{"A-1007"}},
		{provider.Fail, ledger.Answer{Skip: true}, "A colleague takes care", nil},
	} {
		t.Run(fmt.Sprintf("%s, landed %t, skip %t", tt.mode, tt.answer.Landed, tt.answer.Skip), func(t *testing.T) {
			everywhere(t, func(t *testing.T, s *shop) {
				s.mode(tt.mode)
				o := s.options()
				o.Payments = s.pays.Impatient()
				patient := s.bot
				s.bot = s.newBot(o)
				_, err := s.try("ada", "I want a refund for A-1007")
				if !errors.Is(err, orchestrator.ErrSuspended) || orchestrator.Public(err).Status != 202 {
					t.Fatalf("%v", err)
				}
				if _, err := s.try("ada", "Hello?"); !errors.Is(err, orchestrator.ErrSuspended) {
					t.Errorf("%v", err)
				}
				s.mode(provider.OK)
				s.bot = patient
				doubt, _ := errors.AsType[*orchestrator.InDoubtError](err)
				tt.answer.By = "desk"
				if err := ledger.Resolve(t.Context(), s.stores.Ledger(), doubt.Effects[0], tt.answer); err != nil {
					t.Fatal(err)
				}
				res, err := s.bot.Resume(t.Context(), "ada", nil)
				if err != nil || !strings.Contains(res.State.Reply, tt.says) {
					t.Fatalf("%+v, %v, want %q", res, err, tt.says)
				}
				s.pays.WantPaid(t, tt.paid...)
			})
		})
	}
}

// The refund is paid, and the model is away when the reply is to be written. The turn does not settle as if it had
// answered. Asked again, with the same key or another, the bot pays nothing.
func TestPaidAndNoReply(t *testing.T) {
	everywhere(t, func(t *testing.T, s *shop) {
		away := true
		o := s.options()
		o.Model = flaky{o.Model, func(string) bool { return away }}
		s.bot = s.newBot(o)
		in := orchestrator.Input{RequestID: "same", Text: "I want a refund for A-1007"}
		for range 2 {
			if _, err := s.bot.Execute(t.Context(), "ada", in, nil); !errors.Is(err, errAway) ||
				orchestrator.Public(err).Status != 502 {
				t.Fatalf("%v", err)
			}
		}
		s.pays.WantPaid(t, "A-1007")
		away = false
		res, err := s.bot.Execute(t.Context(), "ada", in, nil)
		if err != nil || res.Turn != 0 || res.State.Receipt == "" {
			t.Fatalf("%+v, %v", res, err)
		}
		s.says("bob", "I want a refund for A-1007", res.State.Receipt)
		all, err := s.pays.Payments(t.Context())
		if err != nil || len(all) != 1 || all[0].Asked != 1 {
			t.Errorf("%+v, %v", all, err)
		}
	})
}

// Two customers, or one in two tabs, ask for the same order at once.
func TestTwoTabs(t *testing.T) {
	everywhere(t, func(t *testing.T, s *shop) {
		s.mode(provider.Slow)
		replies := make(chan error, 2)
		for _, session := range []string{"tab-1", "tab-2"} {
			go func() {
				in := orchestrator.Input{Text: "I want a refund for A-1007"}
				_, err := s.bot.Execute(t.Context(), session, in, nil)
				replies <- err
			}()
		}
		for range 2 {
			if err := <-replies; err != nil && !errors.Is(err, orchestrator.ErrIndeterminate) {
				t.Error(err)
			}
		}
		for _, session := range []string{"tab-1", "tab-2"} {
			if _, err := s.bot.Resume(t.Context(), session, nil); err != nil &&
				!errors.Is(err, orchestrator.ErrNothingToResume) {
				t.Error(err)
			}
			for res, err := range s.bot.Turns(t.Context(), session) {
				if err != nil || res.State.Decision != bot.Paid {
					t.Errorf("%s: %+v, %v", session, res, err)
				}
			}
		}
		s.pays.WantPaid(t, "A-1007")
	})
}

// An approval is an answer. The same data is none if the customer, another bot or the program itself has sent it. The
// id of the question is not that of the run, which the customer knows.
func TestNoAnswer(t *testing.T) {
	everywhere(t, func(t *testing.T, s *shop) {
		asked := s.says("ada", "I want a refund for A-1042", "needs the approval of a colleague")
		question := bot.Questions(&asked.State)[0]
		if strings.Contains(question.ID, asked.RunID) {
			t.Errorf("the question of run %s is %s", asked.RunID, question.ID)
		}
		in, err := bot.Answer(question, turnhttp.Answer{Data: []byte(`{"approve":true}`), By: "ada"})
		if err != nil {
			t.Fatal(err)
		}
		for _, origin := range []orchestrator.Origin{
			orchestrator.FromUser, orchestrator.FromTool, orchestrator.FromSystem,
		} {
			in.Origin = origin
			res, err := s.bot.Execute(t.Context(), "ada", in, nil)
			if err != nil || res.State.Approval != nil || len(res.State.Proposals) != 1 {
				t.Errorf("from %s: %+v, %v", origin, res, err)
			}
		}
		s.pays.WantPaid(t)
		s.decides("ada", &asked.State, true, "is paid")
		s.pays.WantPaid(t, "A-1042")
	})
}

// What was paid in a session asks nobody again, and is not offered again.
func TestRefundedBefore(t *testing.T) {
	everywhere(t, func(t *testing.T, s *shop) {
		s.says("ada", "I want a refund for A-1042", "needs the approval of a colleague")
		asked := s.says("ada", "Where is A-1042?", "Its refund waits")
		if asked.State.Expects != "" {
			t.Errorf("the bot expects %q", asked.State.Expects)
		}
		paid := s.decides("ada", &asked.State, true, "The refund of 250.00 for order A-1042 is paid.").State.Receipt
		s.says("ada", "Ok, thank you", "You are welcome")
		if res := s.says("ada", "I want a refund for A-1042", paid); len(res.State.Proposals) > 0 {
			t.Errorf("a person is asked: %+v", res.State.Proposals)
		}
		s.says("ada", "Where is A-1042?", "Its refund is paid.")
		s.pays.WantPaid(t, "A-1042")
	})
}

// A colleague has refused. Thanks do not ask the colleague again. Another request does.
func TestRefusedBefore(t *testing.T) {
	everywhere(t, func(t *testing.T, s *shop) {
		asked := s.says("ada", "I want a refund for A-1042", "needs the approval of a colleague")
		s.decides("ada", &asked.State, false, "does not refund it")
		if res := s.says("ada", "Ok, thank you", "You are welcome"); len(res.State.Proposals) > 0 {
			t.Errorf("a person is asked: %+v", res.State.Proposals)
		}
		s.says("ada", "I want a refund for A-1042", "needs the approval of a colleague")
		s.pays.WantPaid(t)
	})
}

// A number alone asks for what the customer has asked about before, and for no refund otherwise.
func TestNumberAlone(t *testing.T) {
	everywhere(t, func(t *testing.T, s *shop) {
		s.says("ada", "A-1007",
			"Order A-1007, a lamp, is processing. If you do not want it any more, I can refund it. Shall I?")
		s.says("ada", "ok, let me think", "Take your time")
		s.says("bob", "Where is my parcel?", "I need the number of the order")
		s.says("bob", "A-1013", "Order A-1013, two books, is shipped.")
		s.says("eve", "refund B-12", "is paid")
		s.says("eve", "B-13", "Shall I?")
		s.says("eve", "refund B-012", "I find no order")
		s.pays.WantPaid(t, "B-12")
	})
}

// A customer who asks hears where all requests stand, and nothing begins anew.
func TestNews(t *testing.T) {
	everywhere(t, func(t *testing.T, s *shop) {
		s.says("ada", "any news?", "I need the number of the order")
		s.says("ada", "I want a refund for A-1042", "needs the approval of a colleague")
		s.says("ada", "any news?", "Its refund waits for the approval of a colleague.")
		s.says("ada", "I want a refund for A-1050", "needs the approval of a colleague")
		news := s.says("ada", "How is it going?", "The refund of 250.00 for order A-1042 waits")
		if reply := news.State.Reply; !strings.Contains(reply, "Order A-1050, a desk, is shipped. Its refund waits") {
			t.Errorf("the bot says %q", reply)
		}
		s.says("ada", "ok", "All right")
		s.says("ada", "never mind", "waits for the approval of a colleague. If you do not want one of them any more")
		asked := s.says("ada", "no refund for A-1042, please", "I have taken back the request to refund order A-1042.")
		s.decides("ada", &asked.State, false, "does not refund it")
		s.says("ada", "Why was it refused? Any update?", "A colleague has refused its refund.")
		s.says("ada", "don't refund A-1013", "I refund nothing for order A-1013.")
		s.mode(provider.Decline)
		s.says("ada", "refund A-1013", "has declined the refund")
		s.says("ada", "ok", "All right")
		s.says("ada", "is it done?", "The payment provider has declined its refund.")
		s.mode(provider.OK)
		s.says("ada", "refund A-1013", "is paid")
		s.says("ada", "has my refund been paid?", "Its refund is paid.")
		s.says("ada", "I want no refund for A-1013", "is paid. The receipt is")
		s.pays.WantPaid(t, "A-1013")
	})
}

// A wish to be rid of an order is a request for a refund. A question is not.
func TestCancels(t *testing.T) {
	everywhere(t, func(t *testing.T, s *shop) {
		s.says("ada", "I don't want A-1013 any more", "The refund of 31.00 for order A-1013 is paid.")
		s.says("bob", "cancel my order A-1007", "The refund of 49.90 for order A-1007 is paid.")
		s.says("eve", "Did you refund B-7?", "Order B-7, a parcel, is shipped.")
		s.says("eve", "refund the lamp", "I need the number of the order")
		s.says("eve", "what is your refund policy?", "I refund up to 100.00 at once")
		s.says("eve", "refund order 7", "I find no order")
		s.pays.WantPaid(t, "A-1013", "A-1007")
	})
}

// Of several orders in one message the first is done, and the bot asks about the next. If it is not clear what is to
// become of which, the bot asks before it does anything.
func TestTwoOrders(t *testing.T) {
	everywhere(t, func(t *testing.T, s *shop) {
		s.says("ada", "Refund A-1007, A-1013 and B-5", "shall I refund it too?")
		s.says("ada", "Yes please", "for order A-1013 is paid")
		s.says("ada", "No, thanks", "All right")
		s.says("bob", "Where are A-1013 and A-1007?", "You have also named order A-1007. Shall I look it up too?")
		s.says("bob", "yes", "Order A-1007, a lamp")
		s.says("eve", "Where is B-8? And refund B-9", "B-8 and B-9. Which of them shall I refund?")
		s.says("eve", "B-9", "for order B-9 is paid")
		s.says("eve", "please don't refund B-8 or B-6", "I refund nothing for order B-8.")
		s.pays.WantPaid(t, "A-1007", "A-1013", "B-9")
	})
}

// "Ok" agrees to what the bot has offered, and to nothing else that the same message speaks of.
func TestOkAndAnother(t *testing.T) {
	everywhere(t, func(t *testing.T, s *shop) {
		s.says("ada", "Where is A-1013?", "Shall I?")
		s.says("ada", "ok, and A-1007?", "Order A-1007, a lamp, is processing.")
		s.says("ada", "Right, and what about B-5?", "Order B-5, a parcel, is shipped.")
		s.says("ada", "Ok thanks. And B-6?", "Order B-6, a parcel, is shipped.")
		s.says("ada", "Ok, B-6 please", "for order B-6 is paid")
		o := s.options() // another model says yes too often
		o.Model = agreeing{o.Model}
		s.bot = s.newBot(o)
		s.says("bob", "Where is A-1013?", "Shall I?")
		s.says("bob", "And where is A-1007?", "Order A-1007, a lamp, is processing.")
		s.says("bob", "where is it?", "Order A-1007, a lamp, is processing.")
		s.says("bob", "Where are B-7 and B-8?", "Shall I look it up too?")
		s.says("bob", "where is it?", "Order B-8, a parcel, is shipped.")
		s.pays.WantPaid(t, "B-6")
	})
}

// A customer who wants no refund gets none.
func TestWantsNone(t *testing.T) {
	everywhere(t, func(t *testing.T, s *shop) {
		for _, text := range []string{
			"No, I don't want it refunded", "I don’t want it refunded", "I no longer want a refund",
		} {
			s.says("ada", "Where is B-19?", "Shall I?")
			s.says("ada", text, "I refund nothing for order B-19.")
		}
		for _, text := range []string{"yes and no", "ok, don't"} {
			s.says("ada", "Where is B-19?", "Shall I?")
			s.ask("ada", text)
		}
		s.says("ada", "Yes, but not B-51", "I refund nothing for order B-51.")
		s.says("ada", "I need a receipt for the refund of B-42", "Order B-42, a parcel, is shipped.")
		s.says("ada", "I want to keep B-10 and refund B-11", "Which of them shall I refund?")
		s.pays.WantPaid(t)
	})
}

// A complaint takes no request back.
func TestComplains(t *testing.T) {
	everywhere(t, func(t *testing.T, s *shop) {
		s.says("ada", "I want a refund for A-1042", "needs the approval of a colleague")
		for _, text := range []string{
			"I have had no refund for A-1042 yet", "Still no refund for A-1042?", "Why not refund A-1042?", "No refund yet?",
			"Why don't you refund A-1042?", "I did not get my refund",
		} {
			if res := s.says("ada", text, "Its refund waits"); len(res.State.Proposals) != 1 {
				t.Errorf("%q takes the request back: %+v", text, res.State)
			}
		}
		s.pays.WantPaid(t)
	})
}

// Without the number of an order the only request that waits is taken back. Of several the customer has to name one.
func TestTakesBack(t *testing.T) {
	everywhere(t, func(t *testing.T, s *shop) {
		s.says("ada", "I want a refund for A-1050", "needs the approval of a colleague")
		s.says("ada", "Where is B-30?", "Shall I?")
		res := s.says("ada", "Please cancel my refund request", "I have taken back the request to refund order A-1050.")
		if len(res.State.Proposals) > 0 {
			t.Errorf("still waits: %+v", res.State.Proposals)
		}
		s.says("ada", "I want a refund for A-1050", "needs the approval of a colleague")
		s.says("ada", "I want a refund for A-1042", "needs the approval of a colleague")
		s.says("ada", "Where is B-30?", "Shall I?")
		s.says("ada", "Please cancel my refund request", "any more, name it: no refund for A-1050.")
		s.says("ada", "no refund for A-1050", "I have taken back the request to refund order A-1050.")
		s.pays.WantPaid(t)
	})
}

// What the customer was asked stays open while a colleague answers about another order.
func TestAskedMeanwhile(t *testing.T) {
	everywhere(t, func(t *testing.T, s *shop) {
		s.says("ada", "I want a refund for A-1042", "needs the approval of a colleague")
		asked := s.says("ada", "Where is A-1013?", "Shall I?")
		s.decides("ada", &asked.State, false,
			"does not refund it. You have also named order A-1013. Shall I refund it too?")
		s.says("ada", "Yes please", "for order A-1013 is paid")
		s.pays.WantPaid(t, "A-1013")
	})
}

// decides answers the question of a state as a colleague, and wants a reply that holds a text.
func (s *shop) decides(session string, state *bot.State, approve bool, want string) *orchestrator.Result[bot.State] {
	s.t.Helper()
	asked := bot.Questions(state)
	if len(asked) != 1 {
		s.t.Fatalf("questions %+v", asked)
	}
	in, err := bot.Answer(asked[0], turnhttp.Answer{Data: fmt.Appendf(nil, `{"approve":%t}`, approve), By: "desk"})
	if err != nil {
		s.t.Fatal(err)
	}
	in.Origin, in.By = orchestrator.FromAnswer, "desk"
	res, err := s.bot.Execute(s.t.Context(), session, in, nil)
	if err != nil || !strings.Contains(res.State.Reply, want) {
		s.t.Fatalf("%+v, %v, want %q", res, err, want)
	}
	return res
}
