package systemd

// Await is the wait for the end of a job.
var Await = await

// RemoveLeftovers removes environments that a killed spawner left behind.
func (l *Launcher) RemoveLeftovers() { l.removeLeftovers() }
