package testenv

// RunPostgres starts a PostgreSQL for a program that is not a test. It returns the URL of the server and a func that
// stops it. The program calls Close before it ends.
func RunPostgres(opts *Options) (url string, stop func() error, err error) {
	return runServer(postgresEngine{}, opts)
}

// RunRedis is like [RunPostgres].
func RunRedis(opts *Options) (url string, stop func() error, err error) {
	return runServer(redisEngine{}, opts)
}

func runServer(e engine, opts *Options) (url string, stop func() error, err error) {
	if opts == nil {
		opts = new(Options)
	}
	d, err := startDaemon(e, *opts)
	if err != nil {
		return "", nil, err
	}
	return d.url(), d.close, nil
}

// Close stops every server that this process still runs, and removes their data.
func Close() error { return closeAll() }
