package turnlogs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"

	"github.com/holdfast-go/holdfast/turnlog"
)

// An ObjectLog is a turn log in an object store that is reached by HTTP. Each entry is an object. The store lists the
// keys that begin with a prefix, in any order.
type ObjectLog struct {
	URL    string // of the bucket
	Client *http.Client
}

// prefix begins the keys of a run. The names of runs and phases may be too long for a key, or have a slash.
func prefix(run string) string { return fmt.Sprintf("%x/", sha256.Sum256([]byte(run))) }

// Record writes an object unless there is one. If there is one, Record compares the states.
func (l ObjectLog) Record(ctx context.Context, e turnlog.Entry) error {
	if err := e.Validate(); err != nil {
		return err
	}
	key := fmt.Sprintf("%s%d-%x", prefix(e.Run), e.At.UnixMilli(), sha256.Sum256([]byte(e.Phase)))
	doc, err := json.Marshal(e)
	if err != nil {
		return err
	}
	status, _, err := l.call(ctx, http.MethodPut, "/"+key, doc)
	if status != http.StatusPreconditionFailed {
		return err
	}
	_, doc, err = l.call(ctx, http.MethodGet, "/"+key, nil)
	var stored turnlog.Entry
	if err = errors.Join(err, json.Unmarshal(doc, &stored)); err == nil && !turnlog.Same(stored.State, e.State) {
		err = turnlog.ErrChanged
	}
	return err
}

// Restore lists the objects of a run, reads them, and sorts the entries.
func (l ObjectLog) Restore(ctx context.Context, run string) (all []turnlog.Entry, err error) {
	if err := turnlog.ValidateRun(run); err != nil {
		return nil, err
	}
	_, doc, err := l.call(ctx, http.MethodGet, "/?prefix="+url.QueryEscape(prefix(run)), nil)
	var keys []string
	if err = errors.Join(err, json.Unmarshal(doc, &keys)); err != nil {
		return nil, err
	}
	for _, key := range keys {
		var e turnlog.Entry
		_, doc, err := l.call(ctx, http.MethodGet, "/"+key, nil)
		if err = errors.Join(err, json.Unmarshal(doc, &e)); err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b turnlog.Entry) int { return a.At.Compare(b.At) })
	return all, nil
}

// call returns an error unless the store says that all is well.
func (l ObjectLog) call(ctx context.Context, method, path string, body []byte) (status int, doc []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, method, l.URL+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	if method == http.MethodPut {
		req.Header.Set("If-None-Match", "*")
	}
	resp, err := l.Client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	doc, err = io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %s", method, path, resp.Status)
	}
	return resp.StatusCode, doc, err
}
