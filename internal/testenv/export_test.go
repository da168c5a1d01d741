package testenv

// Children exports childrenOf for tests.
var Children = childrenOf
