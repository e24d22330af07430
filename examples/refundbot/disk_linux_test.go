package main

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/examples/refundbot/internal/refundtest"
	"github.com/holdfast-go/holdfast/examples/refundbot/stores"
)

// The disk of the SQLite file is full for a while. Clients are told so, nothing that was acknowledged is lost, and the
// service is well when there is space again.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can mount a small disk")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=8m"); err != nil {
		t.Skipf("a small disk cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	pays := refundtest.StartProvider(t)
	client := service(t, stores.Config{Dir: dir}, pays).client()
	client.say(t, "ada", "1", "Hello")
	ballast := filepath.Join(dir, "ballast")
	fill(t, ballast)
	status := 0
	for i := 0; i < 100 && status < 500; i++ { // the pages that the file has already are filled first
		var err error
		body := map[string]string{"message": "I want a refund for A-1007"}
		status, err = client.call(t.Context(), http.MethodPost, "/sessions/eve/turns", "full", body, nil)
		if err != nil {
			t.Fatal(err)
		}
		if status < 500 {
			client.must(t, http.StatusNoContent, http.MethodDelete, "/sessions/eve", "", nil, nil)
			fill(t, ballast)
		}
	}
	if status != http.StatusInsufficientStorage {
		t.Errorf("with a full disk the status is %d, want %d", status, http.StatusInsufficientStorage)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	said, err := client.insist(t.Context(), "eve", "full", "I want a refund for A-1007")
	if err != nil || said.Reply.Receipt == "" {
		t.Errorf("%+v, %v", said, err)
	}
	if now, err := client.standing(t.Context(), "ada"); err != nil || now.Turn != 0 {
		t.Errorf("%+v, %v", now, err)
	}
	pays.WantPaid(t, "A-1007")
}

// fill takes the space that is left.
func fill(t *testing.T, file string) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 20; size > 0; { // down to the last byte
		if _, err = f.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
}
