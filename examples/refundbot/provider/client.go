package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// ErrDeclined says that the provider has refused a refund. Nothing was paid.
var ErrDeclined = errors.New("the payment provider has declined")

// A Client calls a provider.
type Client struct {
	url     string
	http    *http.Client
	timeout time.Duration
}

// NewClient returns a client of the provider at an address such as "http://127.0.0.1:9000". timeout bounds each call.
// 0 means 5s.
func NewClient(address string, timeout time.Duration) *Client {
	if timeout == 0 {
		timeout = 5 * time.Second
	}
	return &Client{strings.TrimSuffix(address, "/"), &http.Client{}, timeout}
}

// Refund pays the refund of an order, once for each key. After [ErrDeclined] nothing was paid. After any other error
// nobody knows.
func (c *Client) Refund(ctx context.Context, key, order string, cents int) (receipt string, err error) {
	var paid Payment
	status, err := c.call(ctx, http.MethodPost, "/refunds", key, Payment{Order: order, Cents: cents}, &paid)
	switch {
	case err != nil:
		return "", err
	case status == http.StatusPaymentRequired:
		return "", ErrDeclined
	case status != http.StatusOK:
		return "", statusError(status)
	}
	return paid.Receipt, nil
}

// Find asks whether a refund with this key was paid.
func (c *Client) Find(ctx context.Context, key string) (receipt string, found bool, err error) {
	var paid Payment
	status, err := c.call(ctx, http.MethodGet, "/refunds/"+url.PathEscape(key), "", nil, &paid)
	switch {
	case err != nil:
		return "", false, err
	case status == http.StatusNotFound:
		return "", false, nil
	case status != http.StatusOK:
		return "", false, statusError(status)
	}
	return paid.Receipt, true, nil
}

// Payments returns all payments, oldest first.
func (c *Client) Payments(ctx context.Context) (all []Payment, err error) {
	return all, c.mustCall(ctx, http.MethodGet, "/payments", nil, &all)
}

// Mode returns how the provider behaves.
func (c *Client) Mode(ctx context.Context) (Mode, error) {
	var now modeJSON
	err := c.mustCall(ctx, http.MethodGet, "/mode", nil, &now)
	return now.Mode, err
}

// SetMode changes how the provider behaves.
func (c *Client) SetMode(ctx context.Context, m Mode) error {
	return c.mustCall(ctx, http.MethodPut, "/mode", modeJSON{m}, nil)
}

// statusError is the error of an answer that says nothing about the payment.
func statusError(status int) error {
	return fmt.Errorf("the payment provider answers %d %s", status, http.StatusText(status))
}

func (c *Client) mustCall(ctx context.Context, method, path string, body, into any) error {
	status, err := c.call(ctx, method, path, "", body, into)
	if err == nil && status != http.StatusOK {
		err = statusError(status)
	}
	return err
}

// call makes one request. An answer of 200 is decoded into into.
func (c *Client) call(ctx context.Context, method, path, key string, body, into any) (status int, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout, errors.New("the payment provider does not answer"))
	defer cancel()
	var doc []byte
	if body != nil {
		if doc, err = json.Marshal(body); err != nil {
			return 0, err
		}
	}
	r, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(doc))
	if err != nil {
		return 0, err
	}
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	answer, err := c.http.Do(r)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return 0, cause
		}
		return 0, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK || into == nil {
		_, err = io.Copy(io.Discard, answer.Body)
		return answer.StatusCode, err
	}
	return answer.StatusCode, json.NewDecoder(answer.Body).Decode(into)
}
