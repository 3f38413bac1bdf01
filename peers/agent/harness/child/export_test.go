package child

// Pid returns the process id, for tests that kill.
func (p *Process) Pid() int { return p.cmd.Process.Pid }
