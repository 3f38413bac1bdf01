package mcptools

// KillPrograms kills the programs behind a pool's connections.
func KillPrograms(p *Pool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		<-c.ready
		if c.process != nil {
			c.process.Kill()
		}
	}
}
