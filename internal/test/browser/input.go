package browser

import (
	"encoding/json"
	"fmt"
	"strings"
)

// query returns JavaScript for the first element of a selector.
func query(selector string) string {
	name, err := json.Marshal(selector)
	if err != nil {
		panic(err) // a string can always be encoded
	}
	return "document.querySelector(" + string(name) + ")"
}

// reachable finds the middle of an element once it stands still, can be used and nothing covers it. It is a function of
// the element.
const reachable = `(el => {
	if (!el || el.disabled || el.getAttribute("aria-disabled") === "true") return null;
	el.scrollIntoView({block: "center", inline: "center", behavior: "instant"});
	const box = el.getBoundingClientRect();
	const x = box.x + box.width / 2, y = box.y + box.height / 2;
	const top = document.elementFromPoint(x, y);
	return box.width && top && (el.contains(top) || top.contains(el) && top.tagName === "LABEL") ? {x, y} : null;
})`

// noting makes the page note whether the next click comes to an element. It is a function of what finds the element.
const noting = `(find => {
	window.clicked = false;
	const note = e => {
		const el = find();
		const label = e.target.tagName === "LABEL" && e.target.contains(el);
		window.clicked = !!el && (el.contains(e.target) || label);
	};
	document.addEventListener("click", note, {once: true, capture: true});
})`

// Click waits until an element can be clicked, and clicks it with the mouse. If it moves away from under the mouse,
// Click tries again.
func (t *Tab) Click(selector string) {
	t.tb.Helper()
	for range 5 {
		if t.click(selector) {
			return
		}
	}
	t.tb.Fatalf("browser: no click comes to %s", selector)
}

// click reports whether a click came to the element.
func (t *Tab) click(selector string) bool {
	t.tb.Helper()
	find := reachable + "(" + query(selector) + ")"
	t.Eval(noting+"(() => "+query(selector)+")", nil)
	t.WaitFor(selector+" to be clickable", find)
	var at struct{ X, Y float64 }
	t.Eval(find, &at)
	for _, kind := range []string{"mouseMoved", "mousePressed", "mouseReleased"} {
		mouse := map[string]any{"type": kind, "x": at.X, "y": at.Y, "button": "left", "clickCount": 1}
		if kind == "mouseMoved" {
			mouse["button"], mouse["clickCount"] = "none", 0
		}
		t.call("Input.dispatchMouseEvent", mouse, nil)
	}
	missed := false
	t.Eval("window.clicked === false", &missed) // a page that the click has opened knows of no click
	return !missed
}

// Type types text into the element that has the focus.
func (t *Tab) Type(text string) {
	t.tb.Helper()
	t.call("Input.insertText", map[string]any{"text": text}, nil)
}

// keys are the codes of the keys that Key knows by name.
var keys = map[string]struct {
	code int
	text string
}{
	"Tab": {9, ""}, "Enter": {13, "\r"}, "Escape": {27, ""}, "Space": {32, " "}, "Home": {36, ""}, "End": {35, ""},
	"ArrowLeft": {37, ""}, "ArrowUp": {38, ""}, "ArrowRight": {39, ""}, "ArrowDown": {40, ""},
}

// Key presses and releases a key: one of Tab, Enter, Escape, Space, Home, End and the arrows, as in "Shift+Tab".
func (t *Tab) Key(name string) {
	t.tb.Helper()
	modifiers := 0
	if rest, ok := strings.CutPrefix(name, "Shift+"); ok {
		name, modifiers = rest, 8
	}
	k, ok := keys[name]
	if !ok {
		t.tb.Fatalf("browser: no key %q", name)
	}
	key := name
	if name == "Space" {
		key = " "
	}
	press := map[string]any{"key": key, "code": name, "windowsVirtualKeyCode": k.code, "modifiers": modifiers}
	press["type"] = "rawKeyDown"
	if k.text != "" {
		press["type"], press["text"] = "keyDown", k.text
	}
	t.call("Input.dispatchKeyEvent", press, nil)
	delete(press, "text")
	press["type"] = "keyUp"
	t.call("Input.dispatchKeyEvent", press, nil)
}

// TabTo presses Tab until an element has the focus.
func (t *Tab) TabTo(selector string) {
	t.tb.Helper()
	const most = 200
	for range most {
		focused := false
		if t.Eval("document.activeElement === "+query(selector), &focused); focused {
			return
		}
		t.Key("Tab")
	}
	t.tb.Fatalf("browser: %s is not among the first %d elements that Tab reaches\n%s", selector, most, t.page())
}

// A Size is that of the visible part of a page, in CSS pixels.
type Size struct{ Width, Height int }

// The sizes of a laptop and of a phone.
var (
	Wide   = Size{1280, 800}
	Narrow = Size{390, 844}
)

// Viewport sets the size of the visible part of the page.
func (t *Tab) Viewport(s Size) {
	t.tb.Helper()
	t.call("Emulation.setDeviceMetricsOverride", map[string]any{
		"width": s.Width, "height": s.Height, "deviceScaleFactor": 1, "mobile": false,
	}, nil)
}

// A Taste has the wishes of a user about all pages.
type Taste struct{ Dark, ReducedMotion bool }

// Emulate makes the page believe in the taste of its user.
func (t *Tab) Emulate(taste Taste) {
	t.tb.Helper()
	value := func(set bool, yes, no string) string {
		if set {
			return yes
		}
		return no
	}
	t.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{
		{"name": "prefers-color-scheme", "value": value(taste.Dark, "dark", "light")},
		{"name": "prefers-reduced-motion", "value": value(taste.ReducedMotion, "reduce", "no-preference")},
	}}, nil)
	t.WaitFor("the taste", fmt.Sprintf(`matchMedia("(prefers-color-scheme: dark)").matches === %t`, taste.Dark))
}
