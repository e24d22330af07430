package tiny

import (
	"os"
	"testing"
	"time"
)

func TestTiny(t *testing.T) {
	if Clamp(1, 2) != 1 || Clamp(2, 2) != 2 || Clamp(3, 2) != 2 {
		t.Error("Clamp")
	}
	if n, err := Half(0); n != 0 || err != nil {
		t.Error("Half")
	}
	if n, err := Half(-2); n != 0 || err != errNegative {
		t.Error("Half of a negative number")
	}
	if n, err := Half(4); n != 2 || err != nil {
		t.Error("Half of 4")
	}
	if n, _ := Read("12"); n != 12 {
		t.Error("Read")
	}
	if !Level(2) || Level(1) || Level(4) {
		t.Error("Level")
	}
	if Wait != 2*time.Second {
		t.Error("Wait")
	}
	if Down(3) != 0 {
		t.Error("Down")
	}
}

// No test is run for a mutant that it does not come by.
func TestOfNothing(t *testing.T) {
	if m := os.Getenv("HOLDFAST_MUTANT"); m != "0" {
		t.Error("it is run for", m)
	}
}
