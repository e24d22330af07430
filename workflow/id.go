package workflow

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"time"
)

var alphabet = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// NewID returns an id of a run that cannot be guessed. Ids of later milliseconds are greater in byte order, so that new
// rows lie together.
func NewID() string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], uint64(time.Now().UnixMilli())<<16) //nolint:gosec // after 1970
	rand.Read(b[6:])
	return alphabet.EncodeToString(b[:])
}
