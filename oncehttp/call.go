package oncehttp

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/holdfast-go/holdfast/ledger"
)

// errPassed says that a reply was passed on, and is not to be recorded.
var errPassed = errors.New("oncehttp: reply is not recorded")

// errEnded says that the client below has ended its goroutine.
var errEnded = errors.New("oncehttp: client ended without a reply")

// A call is one request, in a goroutine of its own: its reply is passed on while Once waits for the end of it. Close of
// the body waits for the goroutine.
type call struct {
	recorder *Recorder
	scope    *scope
	sum      string
	number   int
	req      *http.Request
	next     func(*http.Request) (*http.Response, error)

	// head gets the reply, or the error, once.
	head chan head

	// tape is the body that was passed on; nil: none yet. made is what is to be recorded of it.
	tape *tape
	made record
}

type head struct {
	res *http.Response
	err error
}

// run makes the call, and passes on how it ended.
func (c *call) run() {
	kept, err := record{}, errEnded
	defer func() { c.finish(kept, err) }()
	kept, err = c.scope.once(c.req.Context(), each(c.sum, c.number), c.recorder.options.KeepOnRetry, c.ask)
}

// ask is the function of Once: it asks the model.
func (c *call) ask() (record, error) {
	ctx, cancel := context.WithCancel(Unrecorded(c.req.Context())) // a Recorder below records nothing
	res, err := c.next(c.req.WithContext(ctx))
	if err != nil {
		cancel()
		return record{}, err
	}
	c.tape = newTape(res.Body, cancel)
	res.Body = c.tape
	if res.StatusCode < 200 || res.StatusCode > 299 {
		c.tape.passOn()
		c.head <- head{res: res}
		return record{}, errPassed
	}
	c.head <- head{res: res}
	body, err := c.tape.fill(ledger.MaxDocument)
	if err != nil {
		return record{}, c.unrecorded(err)
	}
	reply := Reply{
		res.StatusCode, res.Header.Get("Content-Type"), res.Header.Get("Content-Encoding"), shown(res.Header), body,
	}
	if keep := c.recorder.options.Keep; keep != nil && !keep(reply) {
		return record{}, errPassed
	}
	if c.made = newRecord(reply); !c.made.fits() {
		return record{}, c.unrecorded(errTooLarge)
	}
	return c.made, nil
}

// unrecorded returns err. A reply that is too large is passed on, and logged.
func (c *call) unrecorded(err error) error {
	if errors.Is(err, errTooLarge) {
		c.scope.log.WarnContext(c.req.Context(), "model call not recorded: its reply is larger than a ledger takes",
			"effect", c.scope.name, "limit", ledger.MaxDocument)
		return errPassed
	}
	return err
}

// finish passes on what Once has returned: as the reply, or as the end of the body.
func (c *call) finish(kept record, err error) {
	if err != nil {
		c.scope.free(c.sum, c.number)
	}
	switch {
	case c.tape == nil && err == nil:
		c.head <- head{res: kept.response(c.req)}
	case c.tape == nil:
		c.head <- head{err: err}
	case err == nil && kept.same(c.made), errors.Is(err, errPassed):
		c.tape.end(io.EOF)
	case err == nil:
		c.tape.end(ErrOther)
	default:
		if c.made.Status != 0 {
			c.scope.fail(err)
		}
		c.tape.end(err)
	}
}
