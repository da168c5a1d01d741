package testenv

// Children is for the tests of what outlives a process.
var Children = childrenOf
