// Package jsontype finds what encoding/json would lose of a type, before anything is stored.
//
// [Check] judges types, not values. It does not see what is wrong with some values only: NaN, a pointer cycle, text that
// is not UTF-8, two pointers to one variable, a pointer to what is itself null or, if embedded, to what writes nothing.
// It takes these to be equal: a nil and an empty slice, a value and the zero value if the type's own IsZero says so, and
// an empty json.Number and "0".
//
// The verdict is for json.Marshal of a pointer: a pointer is what a MarshalJSON with a pointer receiver needs.
package jsontype
