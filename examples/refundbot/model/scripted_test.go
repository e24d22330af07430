package model

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/message"
)

// A text with a question, a doubt or no wish asks for no refund. One that names several orders is about all of them.
func TestClassify(t *testing.T) {
	refund := func(order string, also ...string) Intent { return Intent{Category: Refund, Order: order, Also: also} }
	shipping := func(order string, also ...string) Intent {
		return Intent{Category: Shipping, Order: order, Also: also}
	}
	other := Intent{Category: Other}
	for text, want := range map[string]Intent{
		"I want a refund for order A-1042":                        refund("A-1042"),
		"my money back please, a1042 came broken":                 refund("A-1042"),
		"Refund order A–1007, please.":                            refund("A-1007"),
		"refund B-12":                                             refund("B-12"),
		"refund A 1007":                                           refund("A-1007"),
		"I'd like to return it":                                   refund(""),
		"I don't want A-1013 any more":                            refund("A-1013"),
		"I don't want it any more":                                refund(""),
		"cancel my order A-1013":                                  refund("A-1013"),
		"please cancel A-1013":                                    refund("A-1013"),
		"Can I get my money back for A-1007?":                     refund("A-1007"),
		"Can you refund A-1007?":                                  refund("A-1007"),
		"I would like to send A-1013 back":                        refund("A-1013"),
		"This is not a joke, refund A-1007":                       refund("A-1007"),
		"refund please":                                           refund(""),
		"refund order 1042":                                       refund("1042"),
		"1042":                                                    {Category: Other, Order: "1042"},
		"refund order 7":                                          refund("7"),
		"refund B-012":                                            refund("B-012"),
		"Sorry, 1013":                                             {Category: Other, Order: "1013"},
		"refund the lamp":                                         {Category: Refund, Another: true},
		"can I get a refund on my lamp?":                          {Category: Refund, Another: true},
		"I don't want my order any more":                          refund(""),
		"forget the refund":                                       {Category: Refund, No: true},
		"could you cancel?":                                       {Category: Other, No: true},
		"refund XY-77":                                            refund("XY-77"),
		"refund 250.00":                                           refund(""),
		"refund my other order":                                   {Category: Refund, Another: true},
		"Refund A-1042 and A-1013":                                refund("A-1042", "A-1013"),
		"please refund B-1, B-2 and B-3":                          refund("B-1", "B-2", "B-3"),
		"Where are A-1013 and A-1007?":                            shipping("A-1013", "A-1007"),
		"Where is A-1013? And refund A-1007":                      {Category: Refund, Also: []string{"A-1013", "A-1007"}},
		"refund A-1042, not A-1013":                               {Category: Refund, Also: []string{"A-1042", "A-1013"}},
		"Where is B-2001?":                                        shipping("B-2001"),
		"has my parcel been delivered":                            shipping(""),
		"where is my refund":                                      shipping(""),
		"when do I get my money?":                                 shipping(""),
		"Did you refund A-1007?":                                  shipping("A-1007"),
		"Has A-1007 been refunded?":                               shipping("A-1007"),
		"I was refunded for A-1007 already":                       shipping("A-1007"),
		"I have not received my refund for A-1007":                shipping("A-1007"),
		"How do I return A-1007?":                                 shipping("A-1007"),
		"Could I get my money back if A-1007 is broken?":          shipping("A-1007"),
		"My friend got a refund for A-1013 last week, I think":    shipping("A-1013"),
		"any news?":                                               shipping(""),
		"How is it going?":                                        shipping(""),
		"what's happening with my request":                        shipping(""),
		"is it approved":                                          shipping(""),
		"I am still waiting":                                      shipping(""),
		"The lamp is broken":                                      shipping(""),
		"What is your refund policy?":                             other,
		"How do I get a refund?":                                  other,
		"I have a question about refunds":                         other,
		"Hello there":                                             other,
		"thanks":                                                  other,
		"":                                                        other,
		"A-1042":                                                  {Category: Other, Order: "A-1042"},
		"it is A-1043":                                            {Category: Other, Order: "A-1043"},
		"yes please":                                              {Category: Other, Yes: true},
		"ok":                                                      {Category: Other, Yes: true},
		"Yes please start the refund":                             {Category: Refund, Yes: true},
		"no thanks":                                               {Category: Other, No: true},
		"never mind":                                              {Category: Other, No: true},
		"ok, never mind":                                          {Category: Other, No: true},
		"ok, let me think":                                        other,
		"yes, but later":                                          other,
		"yes, but I do not want a refund":                         {Category: Refund, No: true},
		"please don't refund A-1007":                              {Category: Refund, Order: "A-1007", No: true},
		"cancel my refund for A-1042":                             {Category: Refund, Order: "A-1042", No: true},
		"no refund":                                               {Category: Refund, No: true},
		"I will keep it":                                          {Category: Refund, No: true},
		"don't cancel A-1007":                                     {Category: Refund, Order: "A-1007", No: true},
		"I no longer want the refund for B-20":                    {Category: Refund, Order: "B-20", No: true},
		"I don't really want a refund for B-21":                   {Category: Refund, Order: "B-21", No: true},
		"I don’t want a refund for B-21":                          {Category: Refund, Order: "B-21", No: true},
		"I refuse the refund for B-22":                            {Category: Refund, Order: "B-22", No: true},
		"Please ignore my refund request for B-45":                {Category: Refund, Order: "B-45", No: true},
		"Yes, but not B-51":                                       {Category: Refund, Order: "B-51", No: true},
		"I don't want to return A-1007":                           {Category: Refund, Order: "A-1007", No: true},
		"I do not want to send B-10 back":                         {Category: Refund, Order: "B-10", No: true},
		"I want to keep B-10":                                     {Category: Refund, Order: "B-10", No: true},
		"I want neither a voucher nor a refund for B-1":           {Category: Refund, Order: "B-1", No: true},
		"I don't want a voucher or a refund for B-1":              {Category: Refund, Order: "B-1", No: true},
		"refund everything except B-5":                            {Category: Refund, Order: "B-5", No: true},
		"I'd rather not get a refund for B-5":                     {Category: Refund, Order: "B-5", No: true},
		"I never asked for a refund of B-5":                       {Category: Refund, Order: "B-5", No: true},
		"No, I don't want it refunded":                            {Category: Refund, No: true},
		"I don't want it refunded":                                {Category: Refund, No: true},
		"No, I don’t want it refunded":                            {Category: Refund, No: true},
		"please no refund":                                        {Category: Refund, No: true},
		"yes and no":                                              other,
		"yes, but not now":                                        other,
		"ok, don't":                                               {Category: Other, No: true},
		"yes, not that one":                                       other,
		"I need a receipt for the refund of B-42":                 shipping("B-42"),
		"Can you confirm the refund of B-42?":                     shipping("B-42"),
		"why not refund B-43?":                                    shipping("B-43"),
		"Why don't you refund B-43?":                              shipping("B-43"),
		"Can't you refund B-43?":                                  shipping("B-43"),
		"I have had no refund for A-1042 yet":                     shipping("A-1042"),
		"Still no refund for A-1042?":                             shipping("A-1042"),
		"I got no refund for A-1042":                              shipping("A-1042"),
		"I did not get a refund for A-1042":                       shipping("A-1042"),
		"I haven't had a refund for A-1042":                       shipping("A-1042"),
		"A-1042 has not been refunded":                            shipping("A-1042"),
		"You refused my refund for A-1042":                        shipping("A-1042"),
		"A refund for B-5 is not needed":                          shipping("B-5"),
		"Refund B-5? No!":                                         shipping("B-5"),
		"A-1013 has not come I want a refund":                     shipping("A-1013"),
		"I need a receipt for my refund":                          shipping(""),
		"no refund so far":                                        shipping(""),
		"No refund yet?":                                          shipping(""),
		"My refund has not come":                                  shipping(""),
		"I don't want order A-1013 any more":                      refund("A-1013"),
		"I don't want A-1013 any more, please refund it":          refund("A-1013"),
		"I want a refund for A-1013 because it does not work":     refund("A-1013"),
		"A-1013 does not work, so refund it":                      refund("A-1013"),
		"I do not need A-1013 any more please cancel it":          refund("A-1013"),
		"I haven't received B-4, I want my money back":            refund("B-4"),
		"I have not got my order B-4, give me my money":           refund("B-4"),
		"Avoid a refund for B-4":                                  {Category: Refund, Order: "B-4", No: true},
		"I want to return B-10":                                   refund("B-10"),
		"I want my money back for B-10, and not next year":        refund("B-10"),
		"I want to keep B-10 and refund B-11":                     {Category: Refund, Also: []string{"B-10", "B-11"}},
		"ok, where is my parcel?":                                 shipping(""),
		"what a day, and the queue at A-1043 was as long as ever": {Category: Other, Order: "A-1043"},
	} {
		if got := classify(text); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v; want %+v", text, got, want)
		}
	}
}

// Small talk gets an answer that fits.
func TestTalk(t *testing.T) {
	for text, want := range map[string]string{
		"What is your refund policy?":    "I refund up to 100.00 at once",
		"How do I get a refund?":         "with the number of the order",
		"Who are you?":                   "a program",
		"How are you?":                   "a program",
		"I want to talk to a human":      "cannot put you through",
		"You are useless!!!":             "I am sorry about that",
		"ok, let me think":               "Take your time",
		"ok":                             "All right",
		"yes and no":                     "Take your time",
		"ok, don’t":                      "Write to me whenever",
		"No, leave it":                   "Write to me whenever",
		"ok thank you":                   "You are welcome",
		"Goodbye":                        "Goodbye",
		"help":                           "Which order is it about?",
		"What do you think of Napoleon?": "I cannot help with that",
		"???":                            "I cannot help with that",
	} {
		if got := talk(text); !strings.Contains(got, want) {
			t.Errorf("%q: %q; want %q", text, got, want)
		}
	}
}

func TestCompose(t *testing.T) {
	paid := moment{category: Refund, decision: isPaid, found: &order{Cents: 42_00}, receipt: "R-1"}
	facts := "The refund of 42.00 for order A-1042 is paid. The receipt is R-1."
	bold := paid
	bold.category, bold.text = Other, "can you promise it?"
	for _, tt := range []struct {
		name string
		d    dialog
		fed  bool
		want string
	}{
		{"facts", dialog{order: "A-1042", now: paid}, false, "Thank you for your patience. " + facts},
		{
			"no order",
			dialog{now: moment{category: Refund, decision: noOrder}},
			false,
			"I am sorry to hear that. I need the number of the order. It looks like A-1042.",
		},
		{
			"shipping", dialog{order: "A-1", now: moment{
				category: Shipping, decision: tell, found: &order{What: "a lamp", Status: "shipped"},
			}}, false, "I have looked it up for you. Order A-1, a lamp, is shipped.",
		},
		{"talk", dialog{now: moment{text: "thank you!", category: Other}}, false, "You are welcome. Is there anything else?"},
		{
			"too much",
			dialog{order: "A-1042", now: bold},
			false,
			facts + " I guarantee that all of this is done by tomorrow.",
		},
		{
			"sent back",
			dialog{order: "A-1042", now: bold},
			true,
			"Let me be exact. " + facts + " I cannot say more than that for certain.",
		},
	} {
		if got := tt.d.compose(tt.fed); got != tt.want {
			t.Errorf("%s: %q; want %q", tt.name, got, tt.want)
		}
	}
}

// A customer whose words seem to agree to everything gets only what was offered.
func TestSeemsToAgree(t *testing.T) {
	d := &dialog{read: func(text string) Intent {
		in := classify(text)
		in.Yes = true
		return in
	}}
	for _, said := range [][2]string{
		{"Where is A-1013?", "Shall I?"},
		{"And where is A-1007?", "Order A-1007, a parcel, is shipped."},
		{"where is it?", "Order A-1007, a parcel, is shipped."},
		{"Where are B-7 and B-8?", "Shall I look it up too?"},
		{"where is it?", "Order B-8, a parcel, is shipped."},
	} {
		got := turn{text: said[0], results: map[string]agent.Result{}}
		calls := d.take(got)
		if len(calls) != 2 || calls[0].tool != "order" {
			t.Fatalf("%q calls %+v", said[0], calls)
		}
		d.now.found = &order{What: "a parcel", Cents: 500, Status: "shipped"}
		d.decide()
		if calls := d.act(got); calls != nil || !strings.Contains(d.compose(false), said[1]) {
			t.Errorf("to %q: %q, and calls %+v; want %q", said[0], d.compose(false), calls, said[1])
		}
	}
}

// What was asked, and which orders were named, survives two summaries.
func TestSummarize(t *testing.T) {
	first := summarize("[user]\nwhere is A-1043?\n\n[assistant]\nOrder A-1043 is on its way.\n\n" +
		"[user]\nand A-1044?\n\n")
	if want := "The customer has asked about: shipping; orders named: A-1043, A-1044."; first != want {
		t.Errorf("%q; want %q", first, want)
	}
	second := summarize("[summary of what came before]\n" + first +
		"\n\n[user]\nrefund A-1044 please\n\n[user]\nand refund a1042\n\n")
	if want := first + " The customer has asked about: refund; orders named: A-1042."; second != want {
		t.Errorf("%q; want %q", second, want)
	}
}

// Each word takes the pause, and the end of the context is the end of the reply.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &Scripted{Pause: time.Second}
		r := agent.Request{Said: []message.Message{message.User("thank you!")}, Tools: []agent.Tool{{Name: "order"}}}
		began := time.Now()
		reply, err := m.Reply(t.Context(), r, func(string) {})
		if err != nil || time.Since(began) != 7*time.Second || reply.Usage.Input == 0 || reply.Usage.Cost == 0 {
			t.Errorf("%+v, %v after %v", reply, err, time.Since(began))
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), 1500*time.Millisecond, errors.New("handed over"))
		defer cancel()
		var said []string
		_, err = m.Reply(ctx, r, func(s string) { said = append(said, s) })
		if err == nil || err.Error() != "handed over" || !slices.Equal(said, []string{"You "}) {
			t.Errorf("%v after %q", err, said)
		}
	})
}
