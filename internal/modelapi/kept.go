package modelapi

import (
	"encoding/json"

	"github.com/holdfast-go/holdfast/message"
)

// A Kept is what the metadata of a reasoning block has: what the vendor wants to see again, unchanged. Only the model
// that has thought it can read it.
type Kept struct {
	Vendor    string          `json:"vendor"`
	Model     string          `json:"model"`
	Signature string          `json:"signature,omitempty"`
	Redacted  string          `json:"redacted,omitempty"`
	Item      json.RawMessage `json:"item,omitempty"`
}

// Reasoning returns a block with what the model has thought.
func (v Vendor) Reasoning(text string, k Kept) message.Block {
	k.Vendor, k.Model = v.Name, v.Model
	raw, err := json.Marshal(k)
	if err != nil { // the Item is no JSON
		return message.Reasoning(text, nil)
	}
	return message.Reasoning(text, raw)
}

// KeptOf returns what this model has to see again of a block.
func (v Vendor) KeptOf(b message.Block) (k Kept, ok bool) {
	if b.Kind != message.KindReasoning || json.Unmarshal(b.Raw, &k) != nil {
		return k, false
	}
	return k, k.Vendor == v.Name && k.Model == v.Model
}
