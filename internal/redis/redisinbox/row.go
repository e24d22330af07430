package redisinbox

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/inbox"
)

// A finding is an item, the place in its list, and its damage if no store wrote it.
type finding struct {
	inbox.Item
	place  string
	damage error
}

const divider = "\x00"

// decode returns the item that a script has told: at, id, by, shown and data.
func decode(k inbox.Key, kind inbox.Kind, member string) finding {
	f := finding{Item: inbox.Item{Key: k, Kind: kind}}
	parts := strings.SplitN(member, divider, 5)
	f.place = strings.Join(parts[:min(2, len(parts))], divider)
	if len(parts) > 1 {
		f.ID = parts[1]
	}
	if len(parts) < 5 {
		f.damage = inbox.Damaged(f.Item, fmt.Errorf("%d parts, want 5", len(parts)))
		return f
	}
	f.By, f.Shown, f.Data = parts[2], parts[3], json.RawMessage(parts[4])
	at, err := strconv.ParseInt(parts[0], 10, 64)
	if err != nil {
		f.damage = inbox.Damaged(f.Item, fmt.Errorf("posted at: %w", err))
		return f
	}
	f.At = time.UnixMicro(at).UTC()
	f.damage = f.Intact()
	return f
}
