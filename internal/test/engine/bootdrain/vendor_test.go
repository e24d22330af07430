package bootdrain_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"testing"
)

// vend is the job of a vendor: another process, with a port on loopback, that pays.
const vend = "vend"

// The ways in which a vendor pays.
const (
	plainly      = ""
	refusesFirst = "refuses first" // an error before the first payment of a key
	failsAfter   = "fails after"   // an error after the first payment of a key
	hangsUp      = "hangs up"      // the reply to the first payment of a key is lost
	slowly       = "slowly"        // the client gives up before the first reply for a key
)

// vendOn runs a vendor until its standard input ends. It prints its address.
func vendOn() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	v := &shop{paid: make(map[string]int), calls: make(map[string]int)}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /pay", v.pay)
	mux.HandleFunc("GET /find", v.find)
	mux.HandleFunc("GET /count", v.count)
	mux.HandleFunc("POST /ask", v.ask)
	return http.Serve(l, mux)
}

// A shop is the vendor's side of payments.
type shop struct {
	mu    sync.Mutex     // protects following fields
	paid  map[string]int // by key
	calls map[string]int
}

func (s *shop) pay(w http.ResponseWriter, r *http.Request) {
	key, mode := r.FormValue("key"), r.FormValue("mode")
	s.mu.Lock()
	s.calls[key]++
	first := s.calls[key] == 1
	if first && mode == refusesFirst {
		s.mu.Unlock()
		http.Error(w, "come again", http.StatusServiceUnavailable)
		return
	}
	if r.FormValue("honours") == "" || s.paid[key] == 0 {
		s.paid[key]++
	}
	s.mu.Unlock()
	if !first {
		mode = plainly
	}
	switch mode {
	case failsAfter:
		http.Error(w, "something broke", http.StatusInternalServerError)
		return
	case hangsUp:
		panic(http.ErrAbortHandler)
	case slowly:
		<-r.Context().Done()
	}
	fmt.Fprint(w, "receipt of "+key)
}

func (s *shop) find(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if key := r.FormValue("key"); s.paid[key] > 0 {
		fmt.Fprint(w, "receipt of "+key)
		return
	}
	http.NotFound(w, r)
}

func (s *shop) count(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = json.NewEncoder(w).Encode(s.paid)
}

// A vendor is the address of a shop, as its clients know it.
type vendor string

// newVendor starts the process of a vendor.
func newVendor(t *testing.T) vendor {
	t.Helper()
	p := job{Do: vend}.start(t)
	if !p.out.Scan() {
		t.Fatal("the vendor has no address")
	}
	return vendor("http://" + p.out.Text())
}

// client has no connections of another test.
func client() *http.Client { return &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} }

var errVendor = errors.New("the vendor's error")

// ask returns the body of an answer, and whether the vendor has found something.
func (v vendor) ask(ctx context.Context, method, path string, values url.Values) (body string, found bool, err error) {
	r, err := http.NewRequestWithContext(ctx, method, string(v)+path+"?"+values.Encode(), nil)
	if err != nil {
		return "", false, err
	}
	answer, err := client().Do(r)
	if err != nil {
		return "", false, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	switch {
	case err != nil:
		return "", false, err
	case answer.StatusCode == http.StatusNotFound:
		return "", false, nil
	case answer.StatusCode != http.StatusOK:
		return "", false, fmt.Errorf("%w: %s", errVendor, answer.Status)
	}
	return string(text), true, nil
}

// pay pays once more, unless the vendor honours keys and knows this one.
func (v vendor) pay(ctx context.Context, key, mode string, honours bool) (string, error) {
	values := url.Values{"key": {key}, "mode": {mode}}
	if honours {
		values.Set("honours", "yes")
	}
	if _, paid, _ := v.find(ctx, key); mode == slowly && !paid {
		return v.payAndLeave(ctx, key, values)
	}
	receipt, _, err := v.ask(ctx, http.MethodPost, "/pay", values)
	return receipt, err
}

// payAndLeave pays, and does not wait for the receipt.
func (v vendor) payAndLeave(ctx context.Context, key string, values url.Values) (string, error) {
	asking, leave := context.WithCancel(ctx)
	defer leave()
	go func() {
		defer leave()
		for paid := false; !paid && asking.Err() == nil; {
			_, paid, _ = v.find(asking, key)
		}
	}()
	_, _, err := v.ask(asking, http.MethodPost, "/pay", values)
	return "", errors.Join(err, context.DeadlineExceeded)
}

func (v vendor) find(ctx context.Context, key string) (receipt string, landed bool, err error) {
	return v.ask(ctx, http.MethodGet, "/find", url.Values{"key": {key}})
}

// counts returns how often each key was paid.
func (v vendor) counts(t *testing.T) (paid map[string]int) {
	t.Helper()
	text, _, err := v.ask(t.Context(), http.MethodGet, "/count", nil)
	if err == nil {
		err = json.Unmarshal([]byte(text), &paid)
	}
	if err != nil {
		t.Fatal(err)
	}
	return paid
}
