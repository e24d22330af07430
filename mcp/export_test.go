package mcp

// Resumed is what a call goes on with.
var Resumed = resumed
