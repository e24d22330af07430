package deliver

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/retry"
	"github.com/holdfast-go/holdfast/workflow"
	"github.com/holdfast-go/holdfast/workflow/flow"
)

// WebhookOptions configure the workflow "webhook". The zero value, and nil, mean the defaults.
type WebhookOptions struct {
	// Keys returns the keys that sign what is posted to a URL: one, or several while a key is replaced. Secret decodes
	// what a receiver has. Keys are not stored. After an error they are asked for again. If Keys is nil, or returns
	// none, the message is not signed.
	Keys func(ctx context.Context, url string) ([][]byte, error)

	// Subscriptions is where a subscription is removed whose receiver answers 410. If it is nil, it stays.
	Subscriptions workflow.Subscriptions

	// Timeout is how long an attempt takes at most: 15 s by default. A receiver should answer first, and work then.
	Timeout time.Duration

	// Retry is 12 attempts, the first pause 5 s, the last 85 min, ± 20 %: three hours in all.
	Retry retry.Policy

	// AllowPrivate allows addresses that are not of the public internet: private, loopback, link-local and others.
	// Without it, whoever may subscribe could reach what is beside this process.
	AllowPrivate bool
}

// Webhook returns the built-in workflow "webhook". It posts the message of a [workflow.Delivery] to its URL. The output
// is the status of the answer. Webhook panics if an option is negative.
func Webhook(o *WebhookOptions) *flow.Workflow[workflow.Delivery, int] {
	w := newWebhook(o)
	return flow.New(workflow.WebhookWorkflow, 1, func(r *flow.Run, d workflow.Delivery) (int, error) {
		status, err := flow.Step(r, "post", func(ctx context.Context) (int, error) { return w.post(ctx, &d) },
			flow.Retry(w.Retry), flow.Timeout(w.Timeout))
		if err != nil || status != http.StatusGone {
			return status, err
		}
		if w.Subscriptions != nil {
			err = flow.Do(r, "unsubscribe", func(ctx context.Context) error {
				return w.Subscriptions.Unsubscribe(ctx, d.Subscription)
			}, flow.Retry(w.Retry))
		}
		if err == nil {
			err = fmt.Errorf("the receiver answers %d %s: subscription %q ends", status, http.StatusText(status),
				d.Subscription)
		}
		return status, err
	})
}

type webhook struct {
	WebhookOptions
	client http.Client
}

func newWebhook(o *WebhookOptions) *webhook {
	w := &webhook{WebhookOptions: *cmp.Or(o, new(WebhookOptions))}
	if w.Timeout < 0 || w.Retry.Attempts < 0 {
		panic(fmt.Sprintf("deliver: a timeout of %v and %d attempts", w.Timeout, w.Retry.Attempts))
	}
	w.Timeout = cmp.Or(w.Timeout, 15*time.Second)
	if w.Retry.Attempts == 0 {
		w.Retry = patiently
	}
	dialer := net.Dialer{Timeout: w.Timeout}
	if !w.AllowPrivate {
		dialer.Control = public
	}
	// A proxy of the environment would look up the names, and reach what it likes.
	w.client.Transport = &http.Transport{
		DialContext: dialer.DialContext, DisableKeepAlives: true, ForceAttemptHTTP2: true,
		MaxResponseHeaderBytes: mostAnswer, TLSHandshakeTimeout: w.Timeout,
	}
	w.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return w
}

// patiently is for receivers that are away for an hour.
var patiently = retry.Exponential(12, 5*time.Second).Spread(0.2)

const (
	mostAnswer = 64 << 10       // bytes of an answer that are read
	mostPause  = 24 * time.Hour // of Retry-After
)

func (w *webhook) post(ctx context.Context, d *workflow.Delivery) (status int, err error) {
	req, err := w.request(ctx, d)
	if err != nil {
		return 0, err
	}
	res, err := w.client.Do(req)
	if err != nil {
		if errors.Is(err, errPrivate) {
			err = retry.Permanent(err)
		}
		return 0, err
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, mostAnswer))
	return judge(res)
}

func (w *webhook) request(ctx context.Context, d *workflow.Delivery) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.URL, bytes.NewReader(d.Message))
	if err == nil && (req.URL.Hostname() == "" || d.ID == "") { // somebody has started the run by hand
		err = fmt.Errorf("%w: the delivery has no URL or no id", workflow.ErrInvalid)
	}
	if err != nil {
		return nil, retry.Permanent(err)
	}
	at := strconv.FormatInt(time.Now().Unix(), 10)
	req.Header = http.Header{
		"Content-Type": {"application/json"}, "User-Agent": {"holdfast"},
		"Webhook-Id": {d.ID}, "Webhook-Timestamp": {at}, "Webhook-Topic": {d.Topic},
	}
	if w.Keys == nil {
		return req, nil
	}
	keys, err := w.Keys(ctx, d.URL)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, key := range keys {
		all = append(all, sign(key, d.ID, at, d.Message))
	}
	if len(all) > 0 {
		req.Header.Set("Webhook-Signature", strings.Join(all, " "))
	}
	return req, nil
}

// sign signs a message by the scheme of Standard Webhooks.
func sign(key []byte, id, at string, body []byte) string {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(id + "." + at + "."))
	h.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(h.Sum(nil))
}

// Secret decodes a secret as receivers have it: "whsec_" and the key in base64.
func Secret(text string) ([]byte, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(text, "whsec_"))
	if err == nil && len(key) == 0 {
		err = errors.New("it is empty")
	}
	if err != nil {
		return nil, fmt.Errorf("deliver: a secret of a webhook: %w", err) // which does not show it
	}
	return key, nil
}

// judge says what an answer means. 410 is an outcome.
func judge(res *http.Response) (status int, err error) {
	status = res.StatusCode
	err = fmt.Errorf("the receiver answers %d %s", status, http.StatusText(status))
	switch {
	case status >= 200 && status < 300, status == http.StatusGone:
		return status, nil
	case status >= 500, status == http.StatusRequestTimeout, status == http.StatusTooEarly,
		status == http.StatusTooManyRequests:
		if d, ok := retryAfter(res); ok {
			err = retry.After(err, d)
		}
		return 0, err
	}
	return 0, retry.Permanent(err)
}

// retryAfter returns the pause that an answer asks for, in seconds or as a time.
func retryAfter(res *http.Response) (time.Duration, bool) {
	text := res.Header.Get("Retry-After")
	if seconds, err := strconv.ParseUint(text, 10, 32); err == nil {
		return min(time.Duration(seconds)*time.Second, mostPause), true
	}
	at, err := http.ParseTime(text)
	return min(max(time.Until(at), 0), mostPause), err == nil
}
