package turnhttp

import "strings"

// Routes returns the method and the path of each route of a Handler. In a path, "*" is any name.
func Routes() (all []string) {
	for _, at := range new(server[struct{}]).table() {
		all = append(all, at.Method+" /"+strings.Join(at.Path, "/"))
	}
	return all
}
