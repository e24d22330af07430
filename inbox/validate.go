package inbox

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/jsonvalue"
	"github.com/holdfast-go/holdfast/internal/valid"
)

// The bounds of an item.
const (
	// MaxData is how many bytes an answer may have, as the shortest JSON.
	MaxData = 1 << 20

	// MaxIDs is how many ids one Remove takes.
	MaxIDs = 1024
)

// Sum returns a sum of what is shown to a person, for Item.Shown. It is equal for values that are equal as JSON.
func Sum(shown any) (string, error) {
	doc, err := json.Marshal(shown)
	if err != nil {
		return "", fmt.Errorf("%w: shown: %w", ErrInvalid, err)
	}
	canonical, err := jsonvalue.Canonical(doc)
	if err != nil {
		return "", fmt.Errorf("%w: shown: %w", ErrInvalid, err)
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:]), nil
}

// Validate refuses an item that no store takes. It is for the authors of a store.
func (it Item) Validate() error {
	return cmp.Or(it.checkNames(), valid.Document("data", it.Data, MaxData))
}

// Intact returns a *DamagedError unless it, which a store has read, is an item as a store writes it. Intact does not
// judge the size of the data.
func (it Item) Intact() error {
	err := it.checkNames()
	if err == nil {
		err = jsonvalue.Stored(it.Data)
	}
	if year := it.At.Year(); err == nil && (year < 1970 || year > 9999) {
		err = fmt.Errorf("posted in the year %d", year)
	}
	if err != nil {
		return Damaged(it, err)
	}
	return nil
}

// Damaged returns the error of a stored item that a store could not read because of err.
func Damaged(it Item, err error) *DamagedError {
	return DamagedError{Key: it.Key, What: string(it.Kind), ID: it.ID, Remedy: "remove it"}.Because(err)
}

// ValidateItems checks the arguments of Items.
func ValidateItems(k Key, kind Kind) error {
	if k.Session == "" {
		k.Session = "all"
	}
	return cmp.Or(k.Validate(), checkKind(kind))
}

// ValidateItem checks the arguments of Item.
func ValidateItem(k Key, kind Kind, id string) error {
	return cmp.Or(k.Validate(), checkKind(kind), valid.ID("id", id))
}

// ValidateRemove checks the arguments of Remove.
func ValidateRemove(k Key, kind Kind, itemIDs []string) error {
	if err := k.Validate(); err != nil {
		return err
	}
	switch {
	case kind == "" && len(itemIDs) > 0:
		return fmt.Errorf("%w: ids without a kind", ErrInvalid)
	case kind != "" && !kind.Known():
		return checkKind(kind)
	case len(itemIDs) > MaxIDs:
		return fmt.Errorf("%w: %d ids, and %d are the most", ErrInvalid, len(itemIDs), MaxIDs)
	}
	for _, id := range itemIDs {
		if err := valid.ID("id", id); err != nil {
			return err
		}
	}
	return nil
}

func (it Item) checkNames() error {
	return cmp.Or(it.Key.Validate(), checkKind(it.Kind), valid.ID("id", it.ID), valid.ID("by", it.By),
		valid.Optional("shown", it.Shown))
}

func checkKind(kind Kind) error {
	if !kind.Known() {
		return fmt.Errorf("%w: kind %q", ErrInvalid, kind)
	}
	return nil
}
