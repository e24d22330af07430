package oncall_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A server is a Prometheus that scrapes the program. It is nil on a machine without Prometheus.
type server struct {
	t    *testing.T
	addr string
}

// watch starts a Prometheus with the rules of docs, if this machine has one.
func watch(t *testing.T, s service) *server {
	t.Helper()
	exe, err := exec.LookPath("prometheus")
	if err != nil {
		t.Log("no Prometheus here: only names and labels are looked at")
		return nil
	}
	if promtool, err := exec.LookPath("promtool"); err == nil {
		if said, err := exec.CommandContext(t.Context(), promtool, "check", "rules", docs+"alerts.yaml").
			CombinedOutput(); err != nil {
			t.Errorf("promtool: %v: %s", err, said)
		}
	}
	dir := t.TempDir()
	rules, err := filepath.Abs(docs + "alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf(`{"global": {"scrape_interval": "1s", "evaluation_interval": "1s"}, "rule_files": [%q],
		"scrape_configs": [{"job_name": "shop", "static_configs": [{"targets": [%q]}]}]}`, rules, s.addr)
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &server{t, free(t)}
	cmd := exec.CommandContext(t.Context(), exe, "--config.file="+filepath.Join(dir, "prometheus.yml"),
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+p.addr, "--log.level=error")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	p.until("a scrape", func() bool { return len(p.ask(`holdfast_turns_total`)) > 0 })
	return p
}

// free returns an address that was free a moment ago. Its port is below those that clients get.
func free(t *testing.T) string {
	t.Helper()
	for range 100 {
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", fmt.Sprint("127.0.0.1:", 30000+rand.IntN(2000)))
		if err == nil {
			defer l.Close()
			return l.Addr().String()
		}
	}
	t.Fatal("no port is free")
	return ""
}

func (p *server) until(what string, ok func() bool) {
	p.t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); {
		if time.Now().After(deadline) {
			p.t.Fatalf("after a minute Prometheus has not seen: %s", what)
		}
		time.Sleep(poll)
	}
}

// ask returns the values of a query. Without an answer there are none.
func (p *server) ask(expr string) (values []float64) {
	text, err := send(context.WithoutCancel(p.t.Context()), "GET",
		"http://"+p.addr+"/api/v1/query?query="+url.QueryEscape(expr))
	if err != nil && strings.HasPrefix(err.Error(), "4") {
		p.t.Fatalf("%s: %v", expr, err)
	}
	var reply struct {
		Data struct{ Result []struct{ Value []any } }
	}
	if err != nil || json.Unmarshal([]byte(text), &reply) != nil {
		return nil
	}
	for _, r := range reply.Data.Result {
		v, err := strconv.ParseFloat(r.Value[1].(string), 64)
		if err != nil {
			p.t.Fatalf("%s: %v", expr, err)
		}
		values = append(values, v)
	}
	return values
}

var threshold = regexp.MustCompile(` > [0-9.]+( \* .*)?$`)

// judge puts every query to Prometheus. A panel shows something, and a rule is true of what has happened, or false.
// least and most bound the quantiles of settled turns.
func (p *server) judge(dashboard, alerts []query, least, most float64) {
	if p == nil {
		return
	}
	p.until("what has happened", func() bool {
		seen := p.ask(`increase(holdfast_turns_total{holdfast_outcome="left"}[1m])`)
		gauges := p.ask(`holdfast_answers > 0 and on() holdfast_deliveries_parked > 0`)
		return len(seen) == 1 && seen[0] > 0 && len(gauges) > 0
	})
	for _, q := range dashboard {
		got := p.ask(q.expr)
		if len(got) == 0 {
			p.t.Errorf("panel %q shows nothing: %s", q.title, q.expr)
		}
		if strings.Contains(q.expr, "turn_duration") && (len(got) != 1 || got[0] < least || got[0] > most) {
			p.t.Errorf("panel %q shows %v, want %v to %v: %s", q.title, got, least, most, q.expr)
		}
		p.t.Logf("panel %q: %v", q.title, got)
	}
	for _, q := range alerts {
		expr := strings.ReplaceAll(q.expr, "[15m]", "[3s]") // there is no quarter of an hour
		if firing[q.title] {
			p.until(q.title+": "+expr, func() bool { return len(p.ask(expr)) > 0 })
		} else if got := p.ask(expr); len(got) > 0 {
			p.t.Errorf("rule %s is true, of %v: %s", q.title, got, expr)
		}
		if bare := threshold.ReplaceAllString(q.expr, ""); bare != q.expr && len(p.ask(bare)) == 0 {
			p.t.Errorf("rule %s compares nothing: %s", q.title, bare)
		}
	}
}
