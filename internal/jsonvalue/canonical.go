package jsonvalue

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// Canonical returns the same bytes for JSON of equal values: members in order, no white space, numbers in one form. No
// document is null.
func Canonical(doc []byte) ([]byte, error) {
	if doc == nil {
		return []byte("null"), nil
	}
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	return json.Marshal(uniform(v))
}

func uniform(v any) any {
	switch v := v.(type) {
	case json.Number:
		return json.Number(uniformNumber(string(v)))
	case []any:
		for i := range v {
			v[i] = uniform(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = uniform(v[name])
		}
	}
	return v
}

// uniformNumber writes a number as its significant digits and an exponent: 150, 150.0 and 1.5e2 are 15e1.
func uniformNumber(text string) string {
	mantissa, power, _ := strings.Cut(strings.ToLower(text), "e")
	exponent, _ := strconv.Atoi(power) // Check refuses exponents that are too large
	digits, negative := strings.CutPrefix(mantissa, "-")
	whole, fraction, _ := strings.Cut(digits, ".")
	exponent -= len(fraction)
	digits = strings.TrimLeft(whole+fraction, "0")
	short := strings.TrimRight(digits, "0")
	if short == "" {
		return "0"
	}
	exponent += len(digits) - len(short)
	if negative {
		short = "-" + short
	}
	return short + "e" + strconv.Itoa(exponent)
}
