package turnhttp_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/test/npm"
	"github.com/holdfast-go/holdfast/turnhttp"
)

// A proxied is a service behind a proxy.
type proxied struct {
	t       *testing.T
	world   *world
	service *httptest.Server
}

func newProxied(t *testing.T) *proxied {
	w := newWorld()
	h := turnhttp.Handler(w.bot(t, w.definition(), nil), w.options())
	p := &proxied{t, w, httptest.NewServer(h)}
	t.Cleanup(func() {
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			p.service.CloseClientConnections()
			p.service.Close()
		}()
		for {
			select {
			case w.hold <- struct{}{}: // the turn goes on without its client
			case <-closed:
				return
			}
		}
	})
	return p
}

// addr is the address of the service.
func (p *proxied) addr() string { return p.service.Listener.Addr().String() }

// A streamed is a turn that says three words, each when it may.
type streamed struct {
	t    *testing.T
	resp *http.Response
	read *bufio.Reader
}

// begin sends an input, and lets the bot say its first word.
func (p *proxied) begin(c *http.Client, base string) *streamed {
	p.t.Helper()
	q := request{
		method: "POST", path: "/sessions/s/turns", body: `{"message":"slow one two three"}`,
		header: map[string]string{
			"Idempotency-Key": fmt.Sprint(time.Now().UnixNano()), "Accept": "text/event-stream",
			"Content-Type": "application/json", "Accept-Encoding": "gzip",
		},
	}
	r := q.make(p.t.Context(), base)
	go func() { p.world.hold <- struct{}{} }()
	resp, err := c.Do(r)
	if err != nil { // the test is over, or the stream is empty
		return &streamed{p.t, new(http.Response), bufio.NewReader(strings.NewReader(""))}
	}
	context.AfterFunc(p.t.Context(), func() { _ = resp.Body.Close() })
	return &streamed{p.t, resp, bufio.NewReader(resp.Body)}
}

// soon is how long a word may take that no proxy holds back, and held how long the test waits to say that one does.
const (
	soon = 5 * time.Second
	held = time.Second
)

// has reports whether text comes within a time.
func (s *streamed) has(text string, within time.Duration) bool {
	came := make(chan bool, 1)
	go func() {
		var all bytes.Buffer
		for {
			b, err := s.read.ReadByte()
			if all.WriteByte(b); err != nil || bytes.HasSuffix(all.Bytes(), []byte(text)) {
				came <- err == nil
				return
			}
		}
	}()
	select {
	case ok := <-came:
		return ok
	case <-time.After(within):
		return false
	}
}

// flows reports whether the first word and the second one come, each at once: a proxy that collects may send the first
// event with the header.
func (p *proxied) flows(s *streamed, within time.Duration) bool {
	if !s.has(`"delta":"one "`, within) {
		return false
	}
	select {
	case p.world.hold <- struct{}{}:
	case <-time.After(within):
		return false
	}
	return s.has(`"delta":"two "`, within)
}

// flowsThrough is flows for a turn that begins through a port. A proxy may hold even the header back.
func (p *proxied) flowsThrough(port string, holds bool) bool {
	within, late := soon, 2*soon
	if holds {
		within, late = held, held
	}
	came := make(chan bool, 1)
	go func() { came <- p.flows(p.begin(http.DefaultClient, "http://127.0.0.1:"+port), within) }()
	select {
	case ok := <-came:
		return ok
	case <-time.After(late):
		return false
	}
}

// rest reads to the end.
func (s *streamed) rest() (string, error) {
	all, err := io.ReadAll(s.read)
	return string(all), err
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

// nginx starts nginx with some servers, and waits until a port is open.
func nginx(t *testing.T, port, servers string) {
	t.Helper()
	program, err := exec.LookPath("nginx")
	if err != nil {
		t.Fatal("the test needs nginx: run make setup")
	}
	dir, user := t.TempDir(), ""
	if os.Getuid() == 0 {
		user = "user root;"
	}
	var paths string
	for _, name := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		paths += fmt.Sprintf("%s_temp_path %s/%s;\n", name, dir, name)
	}
	conf := filepath.Join(dir, "nginx.conf")
	doc := fmt.Sprintf("daemon off;\n%s\npid %s/pid;\nevents {}\nhttp {\naccess_log off;\n%s%s\n}\n",
		user, dir, paths, servers)
	if err := os.WriteFile(conf, []byte(doc), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "-c", conf, "-e", filepath.Join(dir, "error.log")) //nolint:gosec // a test
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	for late := time.Now().Add(10 * time.Second); time.Now().Before(late); time.Sleep(20 * time.Millisecond) {
		if conn, err := net.Dial("tcp", "127.0.0.1:"+port); err == nil {
			conn.Close()
			return
		}
	}
	said, _ := os.ReadFile(filepath.Join(dir, "error.log"))
	t.Fatalf("nginx does not serve: %s", said)
}

const server = "server { listen 127.0.0.1:%s; location / { proxy_pass http://%s; %s } }\n"

// Each line of docs/proxies.md.
func TestProxies(t *testing.T) {
	if os.Getenv("HOLDFAST_TEST_CLIENTS") == "" {
		t.Skip("the test needs nginx and packages of npm: run make clients")
	}
	t.Run("nginx", func(t *testing.T) {
		for _, c := range []struct {
			name, lines string
			ends        bool // a process that is killed looks like an answer that has ended
		}{
			{"HTTP 1.0 to the service", "", true},
			{"HTTP 1.1 to the service", "proxy_http_version 1.1;", false},
			{"with keepalive", `proxy_http_version 1.1; proxy_set_header Connection "";`, false},
		} {
			t.Run(c.name, func(t *testing.T) { testKilled(t, c.lines, c.ends) })
		}
	})
	t.Run("two tiers", testTiers)
	t.Run("gzip", testGzip)
	t.Run("quiet", testQuiet)
	t.Run("HTTP 2", testHTTP2)
	t.Run("compression of Node", testCompression)
}

func testKilled(t *testing.T, lines string, ends bool) {
	p, port := newProxied(t), freePort(t)
	nginx(t, port, fmt.Sprintf(server, port, p.addr(), lines))
	s := p.begin(http.DefaultClient, "http://127.0.0.1:"+port)
	if !s.has(`"delta":"one "`, soon) {
		t.Error("the first word was held back")
	}
	p.service.CloseClientConnections()
	said, err := s.rest()
	if (err == nil) != ends || strings.Contains(said, "event: reply") {
		t.Errorf("the stream ends with %v and %q", err, said)
	}
}

// The inner tier takes X-Accel-Buffering for itself. So the outer one collects what comes with HTTP 1.0, and the
// header too.
func testTiers(t *testing.T) {
	for _, c := range []struct {
		name, inner, outer string
		held               bool
	}{
		{"plain", "", "", true},
		{"both with HTTP 1.1", "proxy_http_version 1.1;", "proxy_http_version 1.1;", false},
		{"the inner one hands it on", "proxy_pass_header X-Accel-Buffering;", "", false},
		{"the outer one does not collect", "", "proxy_buffering off;", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, inner, outer := newProxied(t), freePort(t), freePort(t)
			nginx(t, outer, fmt.Sprintf(server, inner, p.addr(), c.inner)+
				fmt.Sprintf(server, outer, "127.0.0.1:"+inner, c.outer))
			if p.flowsThrough(outer, c.held) == c.held {
				t.Errorf("words were held back: %t", !c.held)
			}
		})
	}
}

// nginx that packs event streams flushes each event, because of X-Accel-Buffering.
func testGzip(t *testing.T) {
	p, port := newProxied(t), freePort(t)
	nginx(t, port, "gzip on; gzip_types text/event-stream; gzip_min_length 1; gzip_proxied any;\n"+
		fmt.Sprintf(server, port, p.addr(), "proxy_http_version 1.1;"))
	c := &http.Client{Transport: &http.Transport{}} // it unpacks, unless the request asks for gzip itself
	r := request{
		method: "POST", path: "/sessions/s/turns", body: `{"message":"slow one two three"}`,
		header: map[string]string{
			"Idempotency-Key": "1", "Accept": "text/event-stream", "Content-Type": "application/json",
		},
	}.make(t.Context(), "http://127.0.0.1:"+port)
	go func() { p.world.hold <- struct{}{} }()
	resp, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	s := &streamed{t, resp, bufio.NewReader(resp.Body)}
	packed, came := resp.Uncompressed, p.flows(s, soon)
	if !packed || !came {
		t.Errorf("packed: %t, the words came at once: %t", packed, came)
	}
}

// A comment comes every 15 seconds, so a proxy has to wait longer.
func testQuiet(t *testing.T) {
	for _, c := range []struct {
		timeout string
		cut     bool
	}{{"5s", true}, {"20s", false}} {
		t.Run(c.timeout, func(t *testing.T) {
			t.Parallel()
			p, port := newProxied(t), freePort(t)
			lines := "proxy_http_version 1.1; proxy_read_timeout " + c.timeout + ";"
			nginx(t, port, fmt.Sprintf(server, port, p.addr(), lines))
			s := p.begin(http.DefaultClient, "http://127.0.0.1:"+port)
			if !s.has(`"delta":"one "`, soon) {
				t.Error("the first word was held back")
			}
			if s.has(": \n", 17*time.Second) == c.cut {
				t.Errorf("the stream was cut in the quiet: %t", !c.cut)
			}
			if !c.cut {
				p.world.hold <- struct{}{}
				p.world.hold <- struct{}{}
				if said, err := s.rest(); err != nil || !strings.Contains(said, "event: reply") {
					t.Errorf("the stream ends with %v and %q", err, said)
				}
			}
		})
	}
}

func testHTTP2(t *testing.T) {
	p, port, dir := newProxied(t), freePort(t), t.TempDir()
	cert := selfSigned(t, dir)
	nginx(t, port, fmt.Sprintf("server { listen 127.0.0.1:%s ssl http2; ssl_certificate %s/cert; "+
		"ssl_certificate_key %s/key; location / { proxy_pass http://%s; proxy_http_version 1.1; } }", port, dir, dir, p.addr()))
	roots := x509.NewCertPool()
	roots.AddCert(cert)
	c := &http.Client{Transport: &http.Transport{
		ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
	}}
	s := p.begin(c, "https://127.0.0.1:"+port)
	if s.resp.ProtoMajor != 2 || !p.flows(s, soon) {
		t.Errorf("over %s words were held back", s.resp.Proto)
	}
	p.service.CloseClientConnections()
	if said, err := s.rest(); err == nil {
		t.Errorf("the stream of a process that was killed ends without an error: %q", said)
	}
}

func selfSigned(t *testing.T, dir string) *x509.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	secretKey, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string]*pem.Block{
		"cert": {Type: "CERTIFICATE", Bytes: der}, "key": {Type: "PRIVATE KEY", Bytes: secretKey},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(b), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err = x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Node's compression collects a whole stream, unless it says no-transform.
func testCompression(t *testing.T) {
	for _, strips := range []bool{false, true} {
		t.Run(fmt.Sprintf("no-transform is stripped %t", strips), func(t *testing.T) {
			p, port := newProxied(t), freePort(t)
			cmd := npm.Node(t, "testdata/compression.mjs", port, p.addr(), fmt.Sprint(strips))
			out, err := cmd.StdoutPipe()
			if err == nil {
				err = cmd.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
			})
			if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
				t.Fatal(line, err)
			}
			if p.flowsThrough(port, strips) == strips {
				t.Errorf("words were held back: %t", !strips)
			}
		})
	}
}
