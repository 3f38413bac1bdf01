package agent

// workTable lists the tools that the collaboration broker gives.
var workTable = []toolRow{}
