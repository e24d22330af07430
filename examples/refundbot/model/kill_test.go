package model_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/examples/refundbot/model"
	"github.com/holdfast-go/holdfast/examples/refundbot/model/chatserver"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/sqlite"
)

// The environment of a child: the file of its stores, the server, and the intent after which it waits to be killed.
const (
	childFile   = "MODEL_TEST_FILE"
	childServer = "MODEL_TEST_SERVER"
	childWaits  = "MODEL_TEST_WAITS_IN"
)

func TestMain(m *testing.M) {
	if os.Getenv(childFile) == "" {
		os.Exit(m.Run())
	}
	if err := child(context.Background()); err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
}

// child runs the turn, or resumes it.
func child(ctx context.Context) error {
	m, err := model.NewOpenAI(model.OpenAIOptions{Key: "k", BaseURL: os.Getenv(childServer) + "/v1"})
	if err != nil {
		return err
	}
	db, err := sqlite.Open(os.Getenv(childFile))
	if err != nil {
		return err
	}
	defer db.Close()
	lite := sqlite.New(db, nil)
	if err := lite.Up(ctx); err != nil {
		return err
	}
	d := sorting(m)
	waits := os.Getenv(childWaits)
	for name, in := range d.Intents {
		run := in.Run
		in.Run = func(ctx context.Context, t *botTurn) error {
			if err := run(ctx, t); err != nil || name != waits {
				return err
			}
			fmt.Println("kill me")
			select {} // nothing of the reply is saved
		}
		d.Intents[name] = in
	}
	bot, err := orchestrator.New(d, lite.Checkpoints(), &orchestrator.Options{
		Snapshots: lite.Snapshots(), Ledger: lite.Ledger(), Logger: quiet(),
		Limits: orchestrator.Limits{LeaseTTL: 8 * time.Second}, // the first may be killed before its first beat
	})
	if err != nil {
		return err
	}
	if waits != "" {
		_, err = bot.Execute(ctx, "s", orchestrator.Input{Text: question}, nil)
		return errors.Join(errors.New("not killed"), err)
	}
	res, err := bot.Resume(ctx, "s", nil)
	if err == nil {
		fmt.Println("said:", res.State.Reply)
	}
	return err
}

// A process is killed when the model has answered and nothing of that is saved. The next process does not ask the model
// again: it is asked once for each reply.
func TestKilled(t *testing.T) {
	for _, intent := range []string{"classify", "compose"} {
		t.Run(intent, func(t *testing.T) {
			t.Parallel()
			server := new(chatserver.Server)
			web := httptest.NewServer(server)
			t.Cleanup(web.Close)
			env := []string{childServer + "=" + web.URL, childFile + "=" + filepath.Join(t.TempDir(), "bot.db")}

			first, said := startChild(t, append(env, childWaits+"="+intent))
			if line := <-said; line != "kill me" {
				t.Fatal(line)
			}
			if err := first.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = first.Wait()
			second, said := startChild(t, env)
			if line := <-said; line != "said: "+reply {
				t.Error(line)
			}
			if err := second.Wait(); err != nil {
				t.Error(err)
			}
			if n := len(server.Asked()); n != 2 {
				t.Errorf("the model was asked %d times, want 2", n)
			}
		})
	}
}

// startChild starts this program as a child. It returns the lines that the child prints.
func startChild(t *testing.T, env []string) (*exec.Cmd, <-chan string) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := make(chan string, 1)
	go func() {
		defer close(said)
		for s := bufio.NewScanner(out); s.Scan(); {
			said <- strings.TrimSpace(s.Text())
		}
	}()
	return cmd, said
}
