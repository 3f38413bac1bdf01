package proc

// SignalDependents is KillDependents where the kernel sends Options.ParentDeathSignal or does not.
var SignalDependents = signalDependents
