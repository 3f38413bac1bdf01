package systemd

// Await is the wait for the end of a job.
var Await = await
