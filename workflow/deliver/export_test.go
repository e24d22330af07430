package deliver

// These are for tests.
var (
	Sign     = sign
	IsPublic = isPublic
)
