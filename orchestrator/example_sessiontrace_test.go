package orchestrator_test

import (
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/orchestrator"
)

// Somebody on call knows the name of a session, and looks its trace up. Any process can say its id.
func ExampleSessionTrace() {
	traceparent := orchestrator.SessionTrace("support", "customer-7")
	fmt.Println(traceparent)
	fmt.Println("https://traces.example/trace/" + strings.Split(traceparent, "-")[1])
	// Output:
	// 00-5db298570c86344c58143f49222c48d6-826d520578bf5482-01
	// https://traces.example/trace/5db298570c86344c58143f49222c48d6
}
