package browser

const Program = program

// PID returns the process of the browser.
func (b *Browser) PID() int { return b.cmd.Process.Pid }

// Profile returns the directory of the browser's profile.
func (b *Browser) Profile() string { return b.profile }
