package inbox

// Drawers returns how many drawers there are.
func (m *Memory) Drawers() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.drawers)
}
