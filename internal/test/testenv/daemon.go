package testenv

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"
)

// An engine is a kind of server.
type engine interface {
	// variable returns the name of the environment variable without which tests use no server of this kind, and what
	// to call that kind.
	variable() (name, kind string)
	// prepare fills d.data before the first start.
	prepare(d *daemon) error
	command(d *daemon) (*exec.Cmd, error)
	url(port int) string
	ping(ctx context.Context, d *daemon) error
	// signals returns two signals. now ends the server at once, without loss of durable data. orderly makes it shut
	// down in good order.
	signals() (now, orderly syscall.Signal)
}

// A daemon is a server that this process runs, and its data.
type daemon struct {
	engine engine
	opts   Options
	dir    string // holds all its files
	data   string
	port   int

	mu   sync.Mutex // protects proc
	proc *child
}

// daemons are the daemons that are not closed yet.
var daemons struct {
	sync.Mutex
	root string // parent of their directories
	list []*daemon
}

// tempDir makes a directory that is removed when all daemons are closed.
func tempDir(pattern string) (string, error) {
	daemons.Lock()
	defer daemons.Unlock()
	if daemons.root == "" {
		root, err := os.MkdirTemp("", "holdfast-")
		if err != nil {
			return "", err
		}
		// Servers may run as another user.
		if err := os.Chmod(root, 0o755); err != nil {
			return "", err
		}
		daemons.root = root
	}
	dir, err := os.MkdirTemp(daemons.root, pattern)
	if err != nil {
		return "", err
	}
	return dir, chown(dir)
}

// closeAll closes every daemon and removes the rest of their files.
func closeAll() error {
	daemons.Lock()
	list, root := daemons.list, daemons.root
	daemons.list, daemons.root = nil, ""
	daemons.Unlock()

	errs := []error{keepers.close()}
	for _, d := range list {
		errs = append(errs, d.close())
	}
	if root != "" {
		errs = append(errs, os.RemoveAll(root))
	}
	return errors.Join(errs...)
}

// startDaemon starts a server on a free port and returns when it answers.
func startDaemon(e engine, opts Options) (*daemon, error) {
	dir, err := tempDir("server-")
	if err != nil {
		return nil, err
	}
	d := &daemon{engine: e, opts: opts, dir: dir, data: filepath.Join(dir, "data")}
	daemons.Lock()
	daemons.list = append(daemons.list, d)
	daemons.Unlock()

	if err := d.prepare(); err != nil {
		return nil, errors.Join(err, d.close())
	}
	for range 3 { // another process may take the port first
		if d.port, err = freePort(); err != nil {
			break
		}
		if err = d.start(); err == nil {
			return d, nil
		}
	}
	return nil, errors.Join(err, d.close())
}

func (d *daemon) prepare() error {
	if d.opts.TmpfsMB > 0 {
		disk := filepath.Join(d.dir, "disk")
		uid, gid := owner()
		if err := os.Mkdir(disk, 0o755); err != nil {
			return err
		}
		if err := mountTmpfs(disk, d.opts.TmpfsMB, uid, gid); err != nil {
			return errors.Join(err, os.Remove(disk))
		}
		d.data = filepath.Join(disk, "data")
	}
	return d.engine.prepare(d)
}

// disk returns the file system of limited size under d, or "".
func (d *daemon) disk() string {
	if d.opts.TmpfsMB == 0 {
		return ""
	}
	return filepath.Dir(d.data)
}

// start starts the server and waits until it answers.
func (d *daemon) start() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	cmd, err := d.engine.command(d)
	if err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(d.dir, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Dir = d.dir
	cmd.Env = append(append(os.Environ(), "LC_ALL=C.UTF-8"), d.opts.Env...)
	cmd.Stdout, cmd.Stderr = log, log

	now, _ := d.engine.signals()
	if d.proc, err = startChild(cmd, now); err != nil {
		return err
	}
	err = await(time.Minute, d.proc.exited, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		return d.engine.ping(ctx, d)
	})
	// The server is down, or another server answered on the port.
	if err != nil || !d.proc.alive() {
		text, _ := os.ReadFile(log.Name())
		return fmt.Errorf("%s does not start: %w\n%s", cmd.Path, err, text[max(0, len(text)-4096):])
	}
	return nil
}

// quit ends the server, in good order or at once.
func (d *daemon) quit(orderly bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.proc == nil {
		return nil
	}
	sig, slow := d.engine.signals()
	if orderly {
		sig = slow
	}
	return d.proc.quit(sig)
}

// close ends the server and removes its data. It may be called again.
func (d *daemon) close() error {
	daemons.Lock()
	daemons.list = slices.DeleteFunc(daemons.list, func(o *daemon) bool { return o == d })
	daemons.Unlock()

	err := d.quit(false)
	if e, ok := d.engine.(interface{ sweep(*daemon) }); ok {
		e.sweep(d)
	}
	if disk := d.disk(); disk != "" {
		if _, gone := os.Stat(disk); gone == nil {
			err = errors.Join(err, unmount(disk))
		}
	}
	return errors.Join(err, os.RemoveAll(d.dir))
}

func (d *daemon) url() string { return d.engine.url(d.port) }

func (d *daemon) addr() string { return fmt.Sprintf("127.0.0.1:%d", d.port) }

// settings returns defaults, changed by the settings that the test asked for. format makes an argument of a name and a
// value.
func (d *daemon) settings(defaults map[string]string, format func(name, value string) []string) []string {
	all := maps.Clone(defaults)
	maps.Copy(all, d.opts.Settings)
	var args []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		args = append(args, format(name, all[name])...)
	}
	return args
}

// freePort returns a port on which no process listens. No process listens on the port 10000 above it either, where a
// cluster node has its bus. The port is below the ports that clients get, so that no client has taken it when the
// server comes back after a crash.
func freePort() (int, error) {
	for range 100 {
		port := 10000 + rand.IntN(10000)
		if listens(port) || listens(port+10000) {
			continue
		}
		return port, nil
	}
	return 0, errors.New("no free port for a server")
}

func listens(port int) bool {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return true
	}
	l.Close()
	return false
}
