package workflowhttp

import (
	"strings"

	"github.com/holdfast-go/holdfast/workflow"
)

// Routes returns the method and the path of each route. In a path, "*" is any name.
func Routes() (all []string) {
	s := &server{client: new(workflow.Client), Options: Options{Subscriptions: new(workflow.Memory)}}
	for _, at := range s.table() {
		if at.Method != "" {
			all = append(all, at.Method+" /"+strings.Join(at.Path, "/"))
		}
	}
	return all
}
