// Package browser drives Chromium in tests, over the DevTools protocol on a pipe.
//
//	b := browser.Start(t)                  // one process for the tests of a package
//	tab := b.Open(t, server.URL)           // storage and cookies of its own
//	tab.Click(`[data-testid="chat-send"]`)
//	tab.WaitFor("a reply", `document.querySelector(".reply")`)
//
// Chromium runs without a window and with an empty profile, which is removed. It ends with the test that started it,
// and when the process of the test ends, however that ends.
//
// The program chromium-headless-shell comes from PATH: Chromium without the parts that draw windows. If it is missing,
// the test is skipped and says why. If HOLDFAST_TEST_REQUIRED is 1, as under make test, the test fails. make setup
// installs it. Where no system packs it, a link of that name to any Chromium does.
//
// Each call waits for what it asks for, with a deadline. If that does not come, the test ends.
//
// Only test files import this package.
package browser
