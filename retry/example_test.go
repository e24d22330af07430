package retry_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/retry"
)

// try follows a policy. A real caller would also wait.
func try(p retry.Policy, f func() error) error {
	for failed := 1; ; failed++ {
		err := f()
		if err == nil || failed >= p.Attempts || retry.IsPermanent(err) {
			return err
		}
		if p.Wait != nil {
			fmt.Println("waiting", p.Wait(failed))
		}
	}
}

func Example() {
	busy := errors.New("busy")
	err := try(retry.Exponential(4, time.Second).Max(3*time.Second), func() error {
		fmt.Println("trying")
		return busy
	})
	fmt.Println(err)
	// Output:
	// trying
	// waiting 1s
	// trying
	// waiting 2s
	// trying
	// waiting 3s
	// trying
	// busy
}

// The zero Policy tries once.
func ExamplePolicy() {
	err := try(retry.Policy{}, func() error {
		fmt.Println("trying")
		return errors.New("busy")
	})
	fmt.Println(err)
	// Output:
	// trying
	// busy
}

// A card that the vendor declines today is declined in a minute too.
func ExamplePermanent() {
	declined := errors.New("card declined")
	err := try(retry.Fixed(5, time.Minute), func() error {
		fmt.Println("charging")
		return fmt.Errorf("charge: %w", retry.Permanent(declined))
	})
	fmt.Println(err, errors.Is(err, declined))
	// Output:
	// charging
	// charge: card declined true
}
