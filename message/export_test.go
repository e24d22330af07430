package message

// ReadAny is UnmarshalJSON without the reader of the usual form.
func (m *Message) ReadAny(doc []byte) error { return m.readAny(doc) }

// IsUsual reports whether doc is read in one pass.
func IsUsual(doc []byte) bool {
	_, ok := readMessage(doc)
	return ok
}
