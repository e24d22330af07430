package tutorial

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// curl does what curl does, as far as the page uses it. It returns the body, with any status.
func (sh *shell) curl(ctx context.Context, args []string) (string, error) {
	method, where, body, header := http.MethodGet, "", "", make(http.Header)
	value := func(i int) string { return append(args, "", "")[i+1] }
	for i := 0; i < len(args); i++ {
		switch args[i] {
		case "-s", "-sS", "-sN":
			// it prints no progress, prints errors, and does not buffer
		case "--json":
			method, body = http.MethodPost, value(i)
			for _, name := range []string{"Content-Type", "Accept"} {
				if header.Get(name) == "" {
					header.Set(name, "application/json")
				}
			}
			i++
		case "-H":
			name, text, ok := strings.Cut(value(i), ": ")
			if !ok {
				return "", fmt.Errorf("curl: header %q", value(i))
			}
			header.Set(name, text)
			i++
		default:
			if where != "" || strings.HasPrefix(args[i], "-") {
				return "", fmt.Errorf("the test's curl does not know %q", args[i])
			}
			where = args[i]
		}
	}
	path, ok := strings.CutPrefix(where, "localhost:8080")
	if !ok {
		return "", fmt.Errorf("curl: asks %q", where)
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://"+sh.addr+path, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	r.Header = header
	r.Close = true // each curl has a connection of its own
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return string(text), err
}
