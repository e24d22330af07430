package logtext

import (
	"fmt"
	"reflect"
	"slices"
)

// A said stands for an error that is not ours: a function of the bot has returned it, or a store. It reads like that
// error, and errors.Is and errors.As find in it what they find in that error. But no method of that error can end the
// process. Its text, and the errors that it wraps, are taken once. A method that panics has no say.
//
// A said has no Unwrap: no other code walks into the error. An error that wraps itself has an end here.
type said struct {
	tree

	// text is what Error of the error has returned, or what textOf says of its types.
	text string
	mute bool // see textOf

	// private says that the text is not for logs.
	private bool
}

// Private marks an error that a function of the bot has returned, or that tells of the bot's state. It calls the
// methods of err, so it belongs where a panic of the bot, or a hang, is expected. Private(nil) is nil.
func Private(err error) error { return stand(err, true) }

// Shield is Private for an error whose text logs may show.
func Shield(err error) error {
	if _, ok := err.(*said); ok { //nolint:errorlint // this very error is meant
		return err
	}
	return stand(err, false)
}

func stand(err error, private bool) error {
	s, ok := err.(*said) //nolint:errorlint // this very error is meant
	switch {
	case err == nil:
		return nil
	case ok && s.private == private:
		return err
	case ok:
		return &said{s.tree, s.text, s.mute, private}
	}
	text, mute := textOf(err)
	return &said{treeOf(err), text, mute, private}
}

// Error returns the text of the error.
func (s *said) Error() string { return s.text }

// Is reports whether the error is target, or wraps it.
func (s *said) Is(target error) bool {
	return s.find(func(err error) bool { return is(err, target) })
}

// As finds target in the error. A nil pointer is never found: its methods would panic.
func (s *said) As(target any) bool {
	to := reflect.ValueOf(target).Elem()
	return s.find(func(err error) bool { return as(err, target, to) })
}

// Public undoes Private for callers that are to have exactly the bot's error. If the method Error of that error panics,
// Public returns err as it is: such a caller may print it.
func Public(err error) error {
	if s, ok := err.(*said); ok && !s.mute { //nolint:errorlint // this very error is meant
		return s.err
	}
	return err
}

// Text returns the text of an error that is not ours. If its method Error panics, the text names the type.
func Text(err error) string {
	text, _ := textOf(err)
	return text
}

// textOf is Text. If Error panics, mute is set, and the text holds no more than a type, so that logs may show it. A nil
// pointer in an error is Go's classic mistake: the text says that it is one.
func textOf(err error) (text string, mute bool) {
	defer func() {
		if recover() == nil {
			return
		}
		mute = true
		if isNil(err) {
			text = fmt.Sprintf("a nil %T as an error", err)
		} else {
			text = fmt.Sprintf("a %T whose method Error panics", err)
		}
	}()
	if err == nil {
		return "no error", false
	}
	return err.Error(), false
}

func isNil(err error) bool {
	v := reflect.ValueOf(err)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

func is(err, target error) (yes bool) {
	if same(err, target) {
		return true
	}
	defer func() { _ = recover() }()
	e, ok := err.(interface{ Is(error) bool })
	return ok && !ours(err) && e.Is(target)
}

func as(err error, target any, to reflect.Value) (found bool) {
	defer func() { _ = recover() }()
	if !isNil(err) && reflect.TypeOf(err).AssignableTo(to.Type()) {
		to.Set(reflect.ValueOf(err))
		return true
	}
	e, ok := err.(interface{ As(any) bool })
	return ok && !ours(err) && e.As(target)
}

// ours reports whether err is a said. What it wraps is in the tree that it is in.
func ours(err error) bool {
	_, ok := err.(*said) //nolint:errorlint // this very error is meant
	return ok
}

// A tree is an error with the errors that it wraps.
type tree struct {
	err   error
	inner []tree

	// hides says that errors.Is and errors.As do not look at inner: the error itself says what they find.
	hides bool
}

// The bounds of a tree: an error may make new errors for ever. A fan-out may fail with an error for each of 10,000
// items.
const (
	mostErrors = 50_000
	mostDeep   = 100
)

// treeOf calls the methods of err, and of the errors that it wraps, that say what they wrap. It calls each once.
func treeOf(err error) tree {
	left := mostErrors
	return treeIn(err, &left, nil)
}

// treeIn returns the tree of an error that the errors above wrap. An error that wraps itself is there once.
func treeIn(err error, left *int, above []error) tree {
	if s, ok := err.(*said); ok { //nolint:errorlint // this very error is meant
		return tree{err: err, inner: []tree{s.tree}}
	}
	t := tree{err: err}
	var inner []error
	if *left--; *left > 0 && len(above) < mostDeep {
		inner, t.hides = wrapped(err)
	}
	above = append(above, err)
	for _, err := range inner {
		if err != nil && !among(above, err) {
			t.inner = append(t.inner, treeIn(err, left, above))
		}
	}
	return t
}

func among(all []error, err error) bool {
	return slices.ContainsFunc(all, func(one error) bool { return same(one, err) })
}

// same reports whether two errors are equal. Values that cannot be compared are not.
func same(a, b error) (equal bool) {
	defer func() { _ = recover() }()
	return reflect.TypeOf(a).Comparable() && a == b //nolint:errorlint // these very errors are meant
}

// A hider is an error that hides the errors it wraps from errors.Is and errors.As.
type hider interface{ Hidden() error }

// wrapped returns the errors that err says it wraps.
func wrapped(err error) (all []error, hides bool) {
	defer func() { _ = recover() }()
	switch e := err.(type) { //nolint:errorlint // this very error is meant
	case interface{ Unwrap() []error }:
		return e.Unwrap(), false
	case interface{ Unwrap() error }:
		return []error{e.Unwrap()}, false
	case hider:
		return []error{e.Hidden()}, true
	}
	return nil, false
}

// find reports whether ok reports true of the error or of one that it wraps, in the order of errors.Is.
func (t *tree) find(ok func(error) bool) bool {
	if ok(t.err) {
		return true
	}
	if t.hides {
		return false
	}
	for i := range t.inner {
		if t.inner[i].find(ok) {
			return true
		}
	}
	return false
}

// Walk calls see for err and for each error that it wraps, also for those that are hidden, depth first. If see returns
// false, Walk leaves out what that error wraps. No method of an error can end Walk or the process.
func Walk(err error, see func(error) (deeper bool)) {
	if err != nil {
		t := treeOf(err)
		t.walk(see)
	}
}

func (t *tree) walk(see func(error) (deeper bool)) {
	if !see(t.err) {
		return
	}
	for i := range t.inner {
		t.inner[i].walk(see)
	}
}
