package llmsim

// Sessions returns how many sessions m remembers.
func Sessions(m *Model) int { return len(m.idle) }
