package bot_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/examples/refundbot/bot"
	"github.com/holdfast-go/holdfast/examples/refundbot/provider"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// Order and customer are looked up at once, and a small refund is paid at once.
func TestRefund(t *testing.T) {
	everywhere(t, func(t *testing.T, s *shop) {
		o := s.says("ada", "I want my money back for A-1007", "The refund of 49.90 for order A-1007 is paid.")
		if o.Custom.Receipt == "" || o.Usage.Input == 0 || o.Usage.Cost == 0 {
			t.Errorf("%+v", o)
		}
		var called []string
		for m, err := range s.bot.Refunds.Messages(t.Context(), "ada") {
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, b := range m.Blocks {
				if c, ok := b.Call(); ok {
					names = append(names, c.Name)
				}
			}
			if names != nil {
				called = append(called, strings.Join(names, "+"))
			}
		}
		if want := []string{"order+customer", "refund"}; !slices.Equal(called, want) {
			t.Errorf("called %q, want %q", called, want)
		}
		s.pays.WantPaid(t, "A-1007")
	})
}

// The published bot repeated its first reply for ever, and did not end turns that are about something else.
func TestSmallTalk(t *testing.T) {
	everywhere(t, func(t *testing.T, s *shop) {
		first := s.ask("ada", "Hello")
		second := s.says("ada", "What do you think of the weather?", "I cannot help with that")
		if first.Text == second.Text {
			t.Errorf("%+v, then %+v", first, second)
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

// What is remembered of the customer is shown to the model, and of no other customer.
func TestRemembers(t *testing.T) {
	everywhere(t, func(t *testing.T, s *shop) {
		o, shown := s.options(), ""
		o.Model = spy{o.Model, func(_ context.Context, r agent.Request) error {
			shown = r.Instructions
			return nil
		}}
		s.bot = s.newBot(o)
		s.ask("ada", "I want a refund for A-1007")
		if s.ask("ada", "Hello"); !strings.Contains(shown, "Order A-1007: receipt R-") {
			t.Errorf("the model is told %q", shown)
		}
		if s.ask("bob", "Hello"); strings.Contains(shown, "A-1007") {
			t.Errorf("of bob the model is told %q", shown)
		}
	})
}

// A reply that promises too much is sent back, once.
func TestPromises(t *testing.T) {
	everywhere(t, func(t *testing.T, s *shop) {
		o, replies := s.options(), 0
		o.Model = spy{o.Model, func(_ context.Context, r agent.Request) error {
			if seen(r, "order") {
				replies++
			}
			return nil
		}}
		s.bot = s.newBot(o)
		said := s.says("ada", "Where is A-1013? Can you guarantee that it comes?", "I cannot say more")
		if strings.Contains(said.Text, "guarantee") || replies != 2 {
			t.Errorf("the bot says %q, after %d replies", said.Text, replies)
		}
	})
}

// After many turns a summary takes the place of the older ones, and the conversation goes on.
func TestFifteenTurns(t *testing.T) {
	everywhere(t, func(t *testing.T, s *shop) {
		o := s.options()
		o.Above = 600
		s.bot = s.newBot(o)
		s.says("ada", "Where is my order A-1013?", "Shall I?")
		for i := range 13 {
			s.ask("ada", fmt.Sprintf("Hello %d", i))
		}
		now, _, err := s.bot.Refunds.Get(t.Context(), "ada")
		if err != nil || !strings.Contains(now.Summary, "A-1013") || len(now.Behind) == 0 {
			t.Errorf("the summary is %q of %v, %v", now.Summary, now.Behind, err)
		}
		if o := s.says("ada", "I want a refund", "The refund of 31.00 for order A-1013 is paid."); o.Version != 15 {
			t.Errorf("version %d", o.Version)
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
				if err := ledger.Resolve(t.Context(), s.stores.Ledger, doubt.Effects[0], tt.answer); err != nil {
					t.Fatal(err)
				}
				res, err := s.bot.Refunds.Bot().Resume(t.Context(), "ada", nil)
				if err != nil || !strings.Contains(res.State.Output, tt.says) {
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
		o.Model = spy{o.Model, func(_ context.Context, r agent.Request) error {
			if away && seen(r, "refund") {
				return errAway
			}
			return nil
		}}
		s.bot = s.newBot(o)
		in := orchestrator.Input{RequestID: "same", Text: "I want a refund for A-1007"}
		for range 2 {
			o, err := s.bot.Refunds.Say(t.Context(), "ada", in, nil)
			if err != nil || o.Status != agent.Failed || o.Reason != agent.ModelFailed || o.Text != "" {
				t.Fatalf("%+v, %v", o, err)
			}
		}
		s.pays.WantPaid(t, "A-1007")
		away = false
		said, err := s.bot.Refunds.Continue(t.Context(), "ada", nil)
		if err != nil || !strings.Contains(said.Text, "The receipt is R-") {
			t.Fatalf("%+v, %v", said, err)
		}
		_, receipt, _ := strings.Cut(said.Text, "The receipt is ")
		s.says("bob", "I want a refund for A-1007", receipt)
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
				_, err := s.bot.Refunds.Say(t.Context(), session, agent.Text("I want a refund for A-1007"), nil)
				replies <- err
			}()
		}
		for range 2 {
			if err := <-replies; err != nil && !errors.Is(err, orchestrator.ErrIndeterminate) {
				t.Error(err)
			}
		}
		for _, session := range []string{"tab-1", "tab-2"} {
			_, err := s.bot.Refunds.Bot().Resume(t.Context(), session, nil)
			if err != nil && !errors.Is(err, orchestrator.ErrNothingToResume) {
				t.Error(err)
			}
			now, _, err := s.bot.Refunds.Get(t.Context(), session)
			if err != nil || now.Custom.Receipt == "" {
				t.Errorf("%s: %+v, %v", session, now, err)
			}
		}
		s.pays.WantPaid(t, "A-1007")
	})
}

// An approval is an answer at the desk. What the customer, another bot or the program itself says is none. The id of
// what is asked is not that of the run, which the customer knows.
func TestNoAnswer(t *testing.T) {
	everywhere(t, func(t *testing.T, s *shop) {
		asked := s.says("ada", "I want a refund for A-1042", "needs the approval of a colleague")
		call := s.waiting("ada")["A-1042"]
		if strings.Contains(call, asked.Run) {
			t.Errorf("the call of run %s is %s", asked.Run, call)
		}
		for _, origin := range []orchestrator.Origin{
			orchestrator.FromUser, orchestrator.FromTool, orchestrator.FromSystem,
		} {
			for _, text := range []string{
				`{"op":"answer","call":"` + call + `","answer":{"Kind":"approval","Approved":true}}`,
				"The desk has decided about order A-1042.", "The desk has decided about order A-1050.",
			} {
				in := orchestrator.Input{Text: text, Origin: origin}
				for _, session := range []string{"ada", bot.CaseOf("ada", "A-1042")} {
					_, _ = s.bot.Refunds.Say(t.Context(), session, in, nil)
				}
				if _, err := s.bot.Desk.Say(t.Context(), bot.CaseOf("ada", "A-1042"), in, nil); err == nil {
					t.Errorf("the desk takes %q from %s", text, origin)
				}
			}
		}
		if len(s.waiting("ada")) != 1 {
			t.Error("nobody is asked any more")
		}
		s.pays.WantPaid(t)
		s.says("ada", "I want a refund for A-1042", "waits")
		s.decides("ada", "A-1042", agent.Approve("desk"), "is paid")
		s.pays.WantPaid(t, "A-1042")
	})
}

// What was paid in a session asks nobody again, and is not offered again.
func TestRefundedBefore(t *testing.T) {
	everywhere(t, func(t *testing.T, s *shop) {
		s.says("ada", "I want a refund for A-1042", "needs the approval of a colleague")
		if asked := s.says("ada", "Where is A-1042?", "Its refund waits"); strings.Contains(asked.Text, "Shall I") {
			t.Errorf("the bot asks %q", asked.Text)
		}
		s.decides("ada", "A-1042", agent.Approve("desk"), "The refund of 250.00 for order A-1042 is paid.")
		s.says("ada", "Ok, thank you", "You are welcome")
		s.says("ada", "I want a refund for A-1042", "is paid. The receipt is R-")
		if asked := s.waiting("ada"); len(asked) > 0 {
			t.Errorf("a person is asked: %v", asked)
		}
		s.says("ada", "Where is A-1042?", "Its refund is paid.")
		s.pays.WantPaid(t, "A-1042")
	})
}

// A colleague has refused. Thanks do not ask the colleague again. Another request does.
func TestRefusedBefore(t *testing.T) {
	everywhere(t, func(t *testing.T, s *shop) {
		s.says("ada", "I want a refund for A-1042", "needs the approval of a colleague")
		s.decides("ada", "A-1042", agent.Refuse("desk", ""), "does not refund it")
		if s.says("ada", "Ok, thank you", "You are welcome"); len(s.waiting("ada")) > 0 {
			t.Error("a person is asked")
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
		if reply := news.Text; !strings.Contains(reply, "Order A-1050, a desk, is shipped. Its refund waits") {
			t.Errorf("the bot says %q", reply)
		}
		s.says("ada", "ok", "All right")
		s.says("ada", "never mind", "waits for the approval of a colleague. If you do not want one of them any more")
		s.says("ada", "no refund for A-1042, please", "I have taken back the request to refund order A-1042.")
		s.decides("ada", "A-1050", agent.Refuse("desk", ""), "does not refund it")
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
			if s.says("ada", text, "Its refund waits"); len(s.waiting("ada")) != 1 {
				t.Errorf("%q takes the request back", text)
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
		s.says("ada", "Please cancel my refund request", "I have taken back the request to refund order A-1050.")
		if asked := s.waiting("ada"); len(asked) > 0 {
			t.Errorf("still waits: %v", asked)
		}
		s.says("ada", "I want a refund for A-1050", "needs the approval of a colleague")
		s.says("ada", "I want a refund for A-1042", "needs the approval of a colleague")
		s.says("ada", "Where is B-30?", "Shall I?")
		s.says("ada", "Please cancel my refund request", "any more, name it: no refund for A-1050.")
		s.says("ada", "no refund for A-1050", "I have taken back the request to refund order A-1050.")
		if asked := s.waiting("ada"); len(asked) != 1 || asked["A-1042"] == "" {
			t.Errorf("still waits: %v", asked)
		}
		s.pays.WantPaid(t)
	})
}

// What the customer was asked stays open while a colleague answers about another order.
func TestAskedMeanwhile(t *testing.T) {
	everywhere(t, func(t *testing.T, s *shop) {
		s.says("ada", "I want a refund for A-1042", "needs the approval of a colleague")
		s.says("ada", "Where is A-1013?", "Shall I?")
		s.decides("ada", "A-1042", agent.Refuse("desk", ""),
			"does not refund it. You have also named order A-1013. Shall I refund it too?")
		s.says("ada", "Yes please", "for order A-1013 is paid")
		s.pays.WantPaid(t, "A-1013")
	})
}

// Nobody agrees in time. The customer is told, and a request that begins anew is asked anew.
func TestOutOfTime(t *testing.T) {
	everywhere(t, func(t *testing.T, s *shop) {
		o := s.options()
		o.ApprovalTTL = time.Millisecond
		s.bot = s.newBot(o)
		s.says("ada", "I want a refund for A-1042", "needs the approval of a colleague")
		for n := 0; n == 0; {
			var err error
			if n, err = s.bot.Desk.Expire(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
		}
		s.told("ada", "Nobody has approved the refund of 250.00 for order A-1042 in time. Shall I ask again?")
		s.says("ada", "Yes please", "needs the approval of a colleague")
		s.pays.WantPaid(t)
	})
}
