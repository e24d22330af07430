package browser

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// program is the build of Chromium that draws no window. With all of a desktop's Chromium, the tests of a page take
// twice as much processor time.
const program = "chromium-headless-shell"

// patience is how long a call waits for Chromium or for the page.
const patience = time.Minute

// A Browser is a Chromium.
type Browser struct {
	cmd     *exec.Cmd
	conn    *conn
	profile string
	said    *tail
	exited  chan struct{}

	mu   sync.Mutex      // protects following field
	tabs map[string]*Tab // by the session of the protocol
}

// Start starts a Chromium, which ends when the test tb has ended.
func Start(tb testing.TB) *Browser {
	tb.Helper()
	if _, err := exec.LookPath(program); err != nil {
		missing(tb, "the test needs "+program+": run make setup")
	}
	profile, err := os.MkdirTemp("", "chromium-")
	if err != nil {
		tb.Fatal("browser:", err)
	}
	b, err := start(profile)
	if err != nil {
		os.RemoveAll(profile) //nolint:errcheck // the other error is told
		tb.Fatal("browser:", err)
	}
	tb.Cleanup(func() {
		if err := b.close(); err != nil {
			tb.Error("browser:", err)
		}
	})
	return b
}

// missing skips the test. If the test is required, missing fails it.
func missing(tb testing.TB, reason string) {
	tb.Helper()
	if os.Getenv("HOLDFAST_TEST_REQUIRED") == "1" {
		tb.Fatal("browser:", reason)
	}
	tb.Skip("browser:", reason)
}

// flags make Chromium quiet, and timers of a tab in the background as fast as those of the tab in front. A page does
// without animations, which would be drawn sixty times a second.
var flags = []string{
	"--headless=new", "--remote-debugging-pipe", "--no-first-run", "--no-default-browser-check", "--mute-audio",
	"--disable-background-networking", "--disable-component-update", "--disable-default-apps", "--disable-extensions",
	"--disable-sync", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-timer-throttling",
	"--disable-backgrounding-occluded-windows", "--disable-renderer-backgrounding", "--hide-scrollbars",
	"--force-color-profile=srgb", "--force-prefers-reduced-motion", "--metrics-recording-only",
	"--password-store=basic", "--use-mock-keychain",
	"--disable-features=Translate,OptimizationHints,MediaRouter,DialMediaRouteProvider",
}

// start starts Chromium and waits until it answers.
func start(profile string) (*Browser, error) {
	commands, toChromium, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	fromChromium, replies, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, commands.Close(), toChromium.Close())
	}
	b := &Browser{
		profile: profile, said: new(tail), exited: make(chan struct{}), tabs: make(map[string]*Tab),
	}
	b.cmd = exec.Command(program, append(flags[:len(flags):len(flags)], "--user-data-dir="+profile)...)
	if os.Getuid() == 0 {
		b.cmd.Args = append(b.cmd.Args, "--no-sandbox") // Chromium refuses to run as root with it
	}
	b.cmd.Args = append(b.cmd.Args, "about:blank")
	b.cmd.Env = append(os.Environ(), "HOME="+profile, "XDG_CONFIG_HOME="+profile, "XDG_CACHE_HOME="+profile)
	b.cmd.Stderr = b.said
	b.cmd.WaitDelay = 5 * time.Second
	b.cmd.ExtraFiles = []*os.File{commands, replies} // 3 and 4
	ownGroup(b.cmd)
	err = b.cmd.Start()
	err = errors.Join(err, commands.Close(), replies.Close())
	if err != nil {
		return nil, errors.Join(err, toChromium.Close(), fromChromium.Close())
	}
	b.conn = newConn(toChromium, fromChromium, b.event)
	go b.wait()
	if err := b.conn.call("", "Browser.getVersion", nil, nil); err != nil {
		return nil, errors.Join(fmt.Errorf("chromium does not answer: %w\n%s", err, b.said), b.close())
	}
	return b, nil
}

func (b *Browser) wait() {
	b.cmd.Wait() //nolint:errcheck // it is killed
	close(b.exited)
}

// close ends Chromium and its children, and removes the profile. Chromium ends by itself when the pipe does, so also if
// this process is killed.
func (b *Browser) close() error {
	err := b.conn.close()
	killGroup(b.cmd)
	<-b.exited
	// A child that is going may still write.
	for end := time.Now().Add(patience); ; {
		removed := os.RemoveAll(b.profile)
		if removed == nil || time.Now().After(end) {
			return errors.Join(err, removed)
		}
	}
}

// event hands an event of the protocol to its tab.
func (b *Browser) event(session, method string, params []byte) {
	b.mu.Lock()
	t := b.tabs[session]
	b.mu.Unlock()
	if t != nil {
		t.event(method, params)
	}
}

// A tail keeps the end of what Chromium says.
type tail struct {
	mu  sync.Mutex // protects following field
	end []byte
}

var _ io.Writer = (*tail)(nil)

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end = append(t.end, p...)
	t.end = t.end[max(0, len(t.end)-4096):]
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.end))
}
