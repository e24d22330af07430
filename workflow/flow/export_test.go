package flow

// Unsigned is unsigned.
var Unsigned = unsigned
