// Package jsontype finds the parts of a type that encoding/json would lose, before a store keeps a value of the type.
//
// [Check] judges types, not values. It does not see faults that only some values have: NaN, a pointer cycle, text that
// is not UTF-8, two pointers to one variable. Nor does it see a pointer to a null, or an embedded pointer to a value
// that writes nothing.
//
// Check takes these to be equal: a nil and an empty slice; an empty json.Number and "0"; a value and the zero value, if
// the type's own IsZero says so.
//
// [MembersOf] is about documents: it finds the members that a type would drop when it reads a document of another
// version of the type.
//
// The verdict of Check is for json.Marshal of a pointer, because a MarshalJSON with a pointer receiver needs a pointer.
package jsontype
