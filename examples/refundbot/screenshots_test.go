package main

import (
	"bytes"
	"flag"
	"fmt"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/test/browser"
)

// update makes TestScreenshots take the pictures anew. They are prettier where the font Inter is installed.
var update = flag.Bool("update", false, "take the pictures of the page anew")

// pictures is where the pictures of the page are, and what README.md calls that directory.
const (
	pictures       = "../../docs/images"
	picturesReadme = "docs/images"
)

// pictured are the states of the page that README.md shows, in both themes.
var pictured = []string{"takeover", "approval"}

const largestPicture = 200 << 10

// The README shows the page as it is. With -update the pictures are taken anew.
func TestScreenshots(t *testing.T) {
	if *update {
		takePictures(t)
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, state := range pictured {
		for _, theme := range []string{"light", "dark"} {
			name := "page-" + state + "-" + theme + ".png"
			content, err := os.ReadFile(filepath.Join(pictures, name))
			if err != nil {
				t.Error(err)
				continue
			}
			size, err := png.DecodeConfig(bytes.NewReader(content))
			if err != nil || size.Width != browser.Wide.Width || size.Height != browser.Wide.Height {
				t.Errorf("%s: %v × %v, %v", name, size.Width, size.Height, err)
			}
			if len(content) > largestPicture {
				t.Errorf("%s has %d bytes, want at most %d", name, len(content), largestPicture)
			}
			if !strings.Contains(string(readme), picturesReadme+"/"+name) {
				t.Errorf("README.md does not show %s", name)
			}
		}
	}
}

func takePictures(t *testing.T) {
	b, p := browser.Start(t), startDemo(t)
	take := func(d *tab, state string) {
		for _, dark := range []bool{false, true} {
			theme := map[bool]string{false: "light", true: "dark"}[dark]
			d.Emulate(browser.Taste{Dark: dark, ReducedMotion: true})
			file := filepath.Join(pictures, "page-"+state+"-"+theme+".png")
			if err := os.WriteFile(file, d.Screenshot(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	office, chat := openDesk(t, b, p, "ann", "/desk/"), openChat(t, b, p)
	chat.say("Refund order A-1007, please.")
	chat.settled(1)
	worker, _ := press(office, chat, "kill", "A-1013")
	chat.WaitFor("the words of the other worker", fmt.Sprintf(`(%s).length > 50`, lastWords))
	take(chat, "takeover")
	chat.settled(2)
	t.Logf("killed %s", worker)
	chat.say("I want my money back for A-1042.")
	chat.caseOf("A-1042")
	office.WaitFor("the question", there("case"))
	office.WaitFor("both workers", `document.querySelectorAll(".worker.running").length === 2`)
	take(office, "approval")
}
