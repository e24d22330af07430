package serve_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/serve"
)

// The environment of a process that TestMain serves in, in place of the tests.
const (
	servedAddr   = "SERVE_TEST_ADDR"
	servedLinger = "SERVE_TEST_LINGER"
)

// serveProcess serves until SIGTERM. Each request takes a while.
func serveProcess(addr string) error {
	linger, err := time.ParseDuration(os.Getenv(servedLinger))
	if err != nil {
		return err
	}
	return serve.Run(context.Background(), serve.Service{
		Addr: addr, Timeouts: serve.Timeouts{Linger: linger}, Logger: slog.New(slog.DiscardHandler),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			time.Sleep(20 * time.Millisecond)
			_, _ = io.WriteString(w, "done")
		}),
	})
}

// A fleet is two processes behind a proxy.
type fleet struct {
	t      *testing.T
	ports  [2]string
	linger string // "0s" is the default of the address
	cmds   [2]*exec.Cmd
}

func newFleet(t *testing.T, linger string) *fleet {
	if runtime.GOOS == "windows" {
		t.Skip("the test needs SIGTERM")
	}
	f := &fleet{t: t, linger: linger}
	for i := range f.ports {
		f.ports[i] = freePort(t)
		f.start(i)
	}
	t.Cleanup(func() {
		for _, cmd := range f.cmds {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	return f
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// start starts a process on all addresses of the machine, as in a cluster, and waits until it is ready.
func (f *fleet) start(i int) {
	cmd := exec.Command(os.Args[0]) //nolint:gosec // this test
	cmd.Env = append(os.Environ(), servedAddr+"=0.0.0.0:"+f.ports[i], servedLinger+"="+f.linger)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	f.cmds[i] = cmd
	for late := time.Now().Add(20 * time.Second); !ready(f.ports[i]); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(late) {
			f.t.Error("a process is not ready")
			return
		}
	}
}

func ready(port string) bool {
	resp, err := http.Get("http://127.0.0.1:" + port + "/readyz")
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// watch tells route which ports are ready, as a cluster does, until ctx ends. It looks every 100 ms.
func (f *fleet) watch(ctx context.Context, route func(ports []string)) {
	var last []string
	for ctx.Err() == nil {
		var now []string
		for _, port := range f.ports {
			if ready(port) {
				now = append(now, port)
			}
		}
		if len(now) > 0 && !slices.Equal(now, last) {
			route(now)
			last = now
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// roll replaces one process after the other by SIGTERM, again and again, while clients send requests to where, until
// there were most of them and each process was replaced. It returns how many there were and what failed.
func (f *fleet) roll(where string, most int64) (sent int64, failed map[string]int) {
	ctx, stop := context.WithCancel(f.t.Context())
	defer stop()
	var count atomic.Int64
	var mu sync.Mutex
	failed = make(map[string]int)
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
			for ctx.Err() == nil {
				var why string
				resp, err := c.Post(where, "application/json", strings.NewReader("{}"))
				if err == nil {
					body, _ := io.ReadAll(resp.Body)
					resp.Body.Close()
					if why = resp.Status; string(body) == "done" {
						why = ""
					}
				} else {
					why = fmt.Sprintf("%T", err)
				}
				count.Add(1)
				if why != "" {
					mu.Lock()
					failed[why]++
					mu.Unlock()
				}
			}
		})
	}
	for i := 0; i < 2 || count.Load() < most; i++ {
		time.Sleep(300 * time.Millisecond)
		if err := f.cmds[i%2].Process.Signal(syscall.SIGTERM); err != nil {
			f.t.Error(err)
		}
		if err := f.cmds[i%2].Wait(); err != nil {
			f.t.Error(err)
		}
		f.start(i % 2)
	}
	stop()
	clients.Wait()
	return count.Load(), failed
}

// A rolling restart of two processes behind a proxy that looks at /readyz loses no request.
func TestRolling(t *testing.T) {
	f := newFleet(t, "800ms")
	var next atomic.Int64
	var live atomic.Pointer[[]string]
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		ports := *live.Load()
		r.SetURL(&url.URL{Scheme: "http", Host: "127.0.0.1:" + ports[next.Add(1)%int64(len(ports))]})
	}, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)})
	defer proxy.Close()
	live.Store(&[]string{f.ports[0], f.ports[1]})
	ctx, stop := context.WithCancel(t.Context())
	var watch sync.WaitGroup
	watch.Go(func() { f.watch(ctx, func(ports []string) { live.Store(&ports) }) })
	sent, failed := f.roll(proxy.URL, 300)
	stop()
	watch.Wait()
	t.Logf("%d requests", sent)
	if len(failed) > 0 {
		t.Errorf("of %d requests failed: %v", sent, failed)
	}
}

const nginxConf = `daemon off;
%s
pid %[2]s/pid;
error_log %[2]s/error.log;
worker_processes 2;
events { worker_connections 512; }
http {
	access_log off;
	client_body_temp_path %[2]s/body;
	proxy_temp_path %[2]s/proxy;
	fastcgi_temp_path %[2]s/fastcgi;
	uwsgi_temp_path %[2]s/uwsgi;
	scgi_temp_path %[2]s/scgi;
	upstream service {
		%[3]s
		keepalive 16;
	}
	server {
		listen 127.0.0.1:%[4]s;
		location / {
			proxy_pass http://service;
			proxy_http_version 1.1;
			proxy_set_header Connection "";
		}
	}
}
`

// The same behind nginx, whose configuration follows /readyz, as a cluster's ingress does. The processes linger as they
// do by default. Without that, some requests are lost.
func TestRollingNginx(t *testing.T) {
	nginx, err := exec.LookPath("nginx")
	if os.Getenv("HOLDFAST_TEST_CLIENTS") == "" || err != nil {
		t.Skip("the test needs nginx: run make clients")
	}
	for _, c := range []struct {
		linger string
		most   int64
	}{{"0s", 5000}, {"-1s", 500}} {
		f := newFleet(t, c.linger)
		dir, port := t.TempDir(), freePort(t)
		user := ""
		if os.Getuid() == 0 {
			user = "user root;"
		}
		conf := filepath.Join(dir, "nginx.conf")
		write := func(ports []string) {
			var servers string
			for _, each := range ports {
				servers += "server 127.0.0.1:" + each + "; "
			}
			doc := fmt.Sprintf(nginxConf, user, dir, servers, port)
			if err := os.WriteFile(conf, []byte(doc), 0o600); err != nil {
				t.Error(err)
			}
		}
		write(f.ports[:])
		cmd := exec.Command(nginx, "-c", conf, "-e", filepath.Join(dir, "error.log")) //nolint:gosec // a test
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for late := time.Now().Add(10 * time.Second); !ready(port); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(late) {
				said, _ := os.ReadFile(filepath.Join(dir, "error.log"))
				t.Fatalf("nginx does not serve: %s", said)
			}
		}
		ctx, stop := context.WithCancel(t.Context())
		var watch sync.WaitGroup
		watch.Go(func() {
			f.watch(ctx, func(ports []string) {
				write(ports)
				if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
					t.Error(err)
				}
			})
		})
		sent, failed := f.roll("http://127.0.0.1:"+port, c.most)
		stop()
		watch.Wait()
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait()
		t.Logf("linger %s: %d requests, failed: %v", c.linger, sent, failed)
		if c.linger == "0s" && len(failed) > 0 {
			t.Errorf("of %d requests failed: %v", sent, failed)
		}
	}
}
