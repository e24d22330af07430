package deliver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/retry"
	"github.com/holdfast-go/holdfast/workflow"
	"github.com/holdfast-go/holdfast/workflow/deliver"
	"github.com/holdfast-go/holdfast/workflow/flow"
)

// A receiver notes what is posted to it.
type receiver struct {
	*httptest.Server

	mu   sync.Mutex // protects got
	got  []*http.Request
	body []string
}

// receive returns a receiver that answers the nth request, from 1 on.
func receive(t *testing.T, answer func(w http.ResponseWriter, req *http.Request, n int)) *receiver {
	r := new(receiver)
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			t.Error(err)
		}
		r.mu.Lock()
		r.got, r.body = append(r.got, req), append(r.body, string(body))
		n := len(r.got)
		r.mu.Unlock()
		answer(w, req, n)
	}))
	t.Cleanup(r.Close)
	return r
}

// answers is a receiver that answers with these statuses in turn, and with the last one from then on.
func answers(t *testing.T, statuses ...int) *receiver {
	return receive(t, func(w http.ResponseWriter, _ *http.Request, n int) {
		w.WriteHeader(statuses[min(n, len(statuses))-1])
	})
}

// requests returns the headers of what was posted, and the bodies.
func (r *receiver) requests() ([]http.Header, []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []http.Header
	for _, req := range r.got {
		all = append(all, req.Header)
	}
	return all, slices.Clone(r.body)
}

// A post is a process that posts webhooks.
type post struct {
	*testing.T
	store *workflow.Memory
	*workflow.Client
}

// posting runs an engine that posts with o, and tries quickly.
func posting(t *testing.T, o deliver.WebhookOptions) *post {
	m := new(workflow.Memory)
	o.Subscriptions = m
	if o.Retry.Attempts == 0 {
		o.Retry = retry.Fixed(3, time.Millisecond)
	}
	e := flow.NewEngine(m, &flow.Options{Logger: slog.New(slog.DiscardHandler)}, deliver.Webhook(&o))
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() {
		if err := e.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { stop(); running.Wait() })
	return &post{t, m, workflow.NewClient(m)}
}

var private = deliver.WebhookOptions{AllowPrivate: true}

// publish publishes a message to one subscription, and returns its run when it is over.
func (p *post) publish(url string) workflow.Run {
	p.Helper()
	return p.await(p.begin(url))
}

func (p *post) begin(url string) string {
	p.Helper()
	err := p.store.Subscribe(p.Context(), workflow.Subscription{ID: "crm", Pattern: "user.*", URL: url})
	var started []workflow.Started
	if err == nil {
		started, err = workflow.Publish(p.Context(), p.store, nil, "user.signup", "m-1", json.RawMessage(`{"user": 42}`))
	}
	if err != nil || len(started) != 1 {
		p.Fatal(started, err)
	}
	return started[0].ID
}

func (p *post) await(run string) workflow.Run {
	p.Helper()
	r, err := p.Await(p.Context(), run)
	if err != nil {
		p.Fatal(err)
	}
	return r
}

// What is posted has the message, its id, and the signature of each key. Neither is a key in the store.
func TestWebhook(t *testing.T) {
	r := answers(t, http.StatusNoContent)
	old, next := []byte("a key that is replaced"), []byte("a key that replaces it")
	o := private
	o.Keys = func(_ context.Context, url string) ([][]byte, error) {
		if url != r.URL+"/hook?q=1" {
			t.Errorf("keys of %s", url)
		}
		return [][]byte{old, next}, nil
	}
	p := posting(t, o)
	run := p.publish(r.URL + "/hook?q=1")
	if run.Status != workflow.Completed || string(run.Output) != "204" {
		t.Errorf("%+v %s", run, run.Output)
	}
	headers, bodies := r.requests()
	if len(headers) != 1 {
		t.Fatalf("%d requests", len(headers))
	}
	h := headers[0]
	at := h.Get("webhook-timestamp")
	want := deliver.Sign(old, "m-1", at, []byte(bodies[0])) + " " + deliver.Sign(next, "m-1", at, []byte(bodies[0]))
	if h.Get("webhook-id") != "m-1" || h.Get("webhook-signature") != want || h.Get("webhook-topic") != "user.signup" ||
		h.Get("content-type") != "application/json" || bodies[0] != `{"user":42}` {
		t.Errorf("posted %s with %v", bodies[0], h)
	}
	if got := r.got[0]; got.Method != http.MethodPost || got.RequestURI != "/hook?q=1" {
		t.Errorf("%s %s", got.Method, got.RequestURI)
	}
	kept := string(run.Input)
	for st, err := range p.Steps(t.Context(), run.ID) {
		kept += fmt.Sprintf(" %+v %s, %v", st, st.Output, err)
	}
	if strings.Contains(kept, "key") {
		t.Errorf("kept: %s", kept)
	}
}

// The signature is that of the vector which the libraries of Standard Webhooks share.
func TestSignature(t *testing.T) {
	key, err := deliver.Secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	got := deliver.Sign(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", []byte(`{"test": 2432232314}`))
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; err != nil || got != want {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
	for _, bad := range []string{"", "whsec_", "whsec_not base64"} {
		if key, err := deliver.Secret(bad); err == nil || strings.Contains(err.Error(), "not") {
			t.Errorf("%q: %q, %v", bad, key, err)
		}
	}
}

// What each answer means.
func TestAnswers(t *testing.T) {
	for _, c := range []struct {
		statuses []int
		posts    int
		status   workflow.Status
	}{
		{[]int{200}, 1, workflow.Completed},
		{[]int{202}, 1, workflow.Completed},
		{[]int{500, 503, 200}, 3, workflow.Completed},
		{[]int{408, 425, 200}, 3, workflow.Completed},
		{[]int{429, 200}, 2, workflow.Completed},
		{[]int{500}, 3, workflow.Failed},
		{[]int{400}, 1, workflow.Failed},
		{[]int{401}, 1, workflow.Failed},
		{[]int{404}, 1, workflow.Failed},
		{[]int{422}, 1, workflow.Failed},
		{[]int{304}, 1, workflow.Failed},
		{[]int{500, 410}, 2, workflow.Failed},
	} {
		t.Run(fmt.Sprint(c.statuses), func(t *testing.T) {
			t.Parallel()
			r, p := answers(t, c.statuses...), posting(t, private)
			run := p.publish(r.URL)
			headers, _ := r.requests()
			if run.Status != c.status || len(headers) != c.posts {
				t.Errorf("%d posts, and %s: %s", len(headers), run.Status, run.Error)
			}
			for _, h := range headers {
				if h.Get("webhook-id") != "m-1" {
					t.Errorf("an attempt has id %q", h.Get("webhook-id"))
				}
			}
			all, err := p.store.Subscriptions(t.Context())
			if gone := slices.Contains(c.statuses, http.StatusGone); err != nil || gone != (len(all) == 0) {
				t.Errorf("the subscriptions are %+v, %v", all, err)
			}
		})
	}
}

// A receiver that has gone gets no more messages. The publisher sees no difference.
func TestGone(t *testing.T) {
	r, p := answers(t, http.StatusGone), posting(t, private)
	run := p.publish(r.URL)
	if run.Status != workflow.Failed || run.Error != `the receiver answers 410 Gone: subscription "crm" ends` {
		t.Errorf("%+v", run)
	}
	started, err := workflow.Publish(t.Context(), p.store, nil, "user.signup", "m-2", 1)
	if err != nil || started != nil {
		t.Error(started, err)
	}
}

// A receiver that never answers is tried as often as the policy says, with the same id.
func TestNeverAnswers(t *testing.T) {
	r := receive(t, func(_ http.ResponseWriter, req *http.Request, _ int) { <-req.Context().Done() })
	o := private
	o.Timeout = 50 * time.Millisecond
	run := posting(t, o).publish(r.URL)
	headers, _ := r.requests()
	if run.Status != workflow.Failed || len(headers) != 3 || !strings.Contains(run.Error, "deadline") {
		t.Errorf("%d posts, and %+v", len(headers), run)
	}
}

// Retry-After says when the next attempt is made.
func TestRetryAfter(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"7200": 2 * time.Hour, "99999999": 24 * time.Hour, "soon": 0, "-1": 0,
		time.Now().Add(3 * time.Hour).UTC().Format(http.TimeFormat): 3 * time.Hour,
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			arrived := make(chan bool, 3)
			r := receive(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
				w.Header().Set("Retry-After", text)
				w.WriteHeader(http.StatusServiceUnavailable)
				arrived <- true
			})
			o := private
			o.Retry = retry.Fixed(2, 10*time.Minute)
			p := posting(t, o)
			id := p.begin(r.URL)
			<-arrived
			run := p.parked(id)
			if want == 0 {
				want = 10 * time.Minute
			}
			if in := time.Until(run.Due); in > want || in < want-time.Minute {
				t.Errorf("it is due in %v, want %v", in, want)
			}
		})
	}
}

// parked returns a run when it waits.
func (p *post) parked(id string) workflow.Run {
	p.Helper()
	for {
		r, err := p.Get(p.Context(), id)
		if err != nil || r.Status != workflow.Running {
			p.Fatal(r, err)
		}
		if r.Owner == "" && r.Due.After(time.Now()) {
			return r
		}
		<-time.After(time.Millisecond)
	}
}

// A redirect is not followed: whoever answers may not say where the message goes.
func TestRedirect(t *testing.T) {
	to := answers(t, 200)
	r := receive(t, func(w http.ResponseWriter, req *http.Request, _ int) {
		http.Redirect(w, req, to.URL, http.StatusTemporaryRedirect)
	})
	run := posting(t, private).publish(r.URL)
	if headers, _ := to.requests(); run.Status != workflow.Failed || len(headers) != 0 ||
		!strings.Contains(run.Error, "307") {
		t.Errorf("%d posts, and %+v", len(headers), run)
	}
}

// An answer without end is read up to a bound, and not kept.
func TestLongAnswer(t *testing.T) {
	r := receive(t, func(w http.ResponseWriter, req *http.Request, _ int) {
		for req.Context().Err() == nil {
			if _, err := io.WriteString(w, strings.Repeat("secret", 1000)); err != nil {
				return
			}
		}
	})
	p := posting(t, private)
	run := p.publish(r.URL)
	if run.Status != workflow.Completed || string(run.Output) != "200" {
		t.Errorf("%+v %.40s", run, run.Output)
	}
}

// An address that is not of the public internet is refused after its name was looked up, in all spellings.
func TestPrivateAddress(t *testing.T) {
	r := answers(t, 200)
	_, port, _ := strings.Cut(strings.TrimPrefix(r.URL, "http://"), ":")
	for host, why := range map[string]string{
		"127.0.0.1": "public internet", "localhost": "public internet", "[::ffff:127.0.0.1]": "public internet",
		"0.0.0.0": "public internet", "[::]": "public internet", "2130706433": "",
	} {
		t.Run(host, func(t *testing.T) {
			t.Parallel()
			run := posting(t, deliver.WebhookOptions{}).publish("http://" + host + ":" + port + "/")
			if run.Status != workflow.Failed || !strings.Contains(run.Error, why) {
				t.Errorf("%+v", run)
			}
			if headers, _ := r.requests(); len(headers) != 0 {
				t.Errorf("%d posts", len(headers))
			}
		})
	}
}

// A key that cannot be had is asked for again. Nothing is posted without it.
func TestKeysAway(t *testing.T) {
	r, asked := answers(t, 200), 0
	o := private
	o.Keys = func(context.Context, string) ([][]byte, error) {
		if asked++; asked < 3 {
			return nil, errors.New("the vault is away")
		}
		return [][]byte{[]byte("k")}, nil
	}
	run := posting(t, o).publish(r.URL)
	if headers, _ := r.requests(); run.Status != workflow.Completed || len(headers) != 1 || asked != 3 {
		t.Errorf("asked %d times, %d posts, and %+v", asked, len(headers), run)
	}
}

// A run that was started by hand, without a delivery, fails and posts nothing.
func TestNoDelivery(t *testing.T) {
	p := posting(t, private)
	for _, in := range []workflow.Delivery{{}, {URL: "http://127.0.0.1:1"}, {ID: "i", URL: "%"}, {ID: "i", URL: "a"}} {
		in.Message = json.RawMessage("1")
		s, err := p.Start(t.Context(), workflow.WebhookWorkflow, in, nil)
		if err != nil {
			t.Fatal(err)
		}
		if run := p.await(s.ID); run.Status != workflow.Failed || len(run.Error) == 0 {
			t.Errorf("%v: %+v", in, run)
		}
	}
}

func TestBadWebhookOptions(t *testing.T) {
	for _, o := range []deliver.WebhookOptions{{Timeout: -1}, {Retry: retry.Policy{Attempts: -1}}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%+v does not panic", o.Timeout)
				}
			}()
			deliver.Webhook(&o)
		}()
	}
}
