// Command vulns looks for known vulnerabilities in what packages call. Its arguments are the version of govulncheck and
// the packages.
//
// The database is that of GOVULNDB, or https://vuln.go.dev. If it cannot be reached, vulns says that nothing was
// checked, and succeeds. It fails on findings.
package main

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: vulns VERSION PACKAGE...")
		os.Exit(2)
	}
	database := cmp.Or(os.Getenv("GOVULNDB"), "https://vuln.go.dev")
	if err := reach(context.Background(), database); err != nil {
		fmt.Printf("vulns: NOTHING WAS CHECKED: the database of vulnerabilities cannot be reached: %v\n", err)
		return
	}
	args := append([]string{"run", "golang.org/x/vuln/cmd/govulncheck@" + os.Args[1], "-db", database}, os.Args[2:]...)
	cmd := exec.Command("go", args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "vulns:", err)
		os.Exit(1)
	}
}

// reach reports why there is no database at an address. A database in files is govulncheck's to find.
func reach(ctx context.Context, database string) error {
	if strings.HasPrefix(database, "file:") {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(database, "/")+"/index/db.json", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", r.URL, resp.Status)
	}
	return nil
}
