package ledger

import (
	"errors"
	"net"
	"net/url"
)

// NotSent marks err with NotDone if package net proves that nothing was sent: a name was not found, or no connection
// came about. Otherwise it returns err as it is. An error in the middle of a connection, as "connection reset", is no
// proof.
//
// NotSent judges the one attempt that err is about. An error that wraps several is no proof, nor is one of an
// http.Client: the client may have followed a redirect, and its transport may have sent the request before, over
// another connection. For HTTP there is NotSent of package oncehttp.
func NotSent(err error) error {
	if neverSent(err) {
		return &unsent{NotDone(err)}
	}
	return err
}

// An unsent is a NotDone error that is a net.Error, as the error itself is: clients of HTTP look for one.
type unsent struct{ err error }

func (e *unsent) Error() string { return e.err.Error() }

func (e *unsent) Unwrap() error { return e.err }

func (e *unsent) Timeout() bool {
	of, ok := errors.AsType[net.Error](e.err)
	return ok && of.Timeout()
}

func (e *unsent) Temporary() bool { return e.Timeout() }

// mostWrapped bounds a chain of errors: an error may wrap itself.
const mostWrapped = 100

// neverSent looks at an error that is not ours: its methods may panic, which proves nothing. It does not ask the
// methods Is and As, which may say anything.
func neverSent(err error) (proven bool) {
	defer func() { proven = recover() == nil && proven }()
	for range mostWrapped {
		switch e := err.(type) { //nolint:errorlint // the loop goes down, and must not pass an error that joins others
		case *url.Error: // of an http.Client
			return false
		case *net.DNSError:
			return e != nil
		case *net.OpError:
			switch e.Op {
			case "dial":
				return true
			case "proxyconnect", "socks connect": // then Err says how far it came
				err = e.Err
			default:
				return false
			}
		case interface{ Unwrap() error }:
			err = e.Unwrap()
		default:
			return false
		}
	}
	return false
}
