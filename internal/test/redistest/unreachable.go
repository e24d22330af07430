package redistest

import (
	"context"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
)

// Unreachable are the options of clients whose server cannot be reached, by why it cannot.
var Unreachable = map[string]redis.Options{
	"down": {Addr: "127.0.0.1:1", MaxRetries: -1},
	"no such host": {
		Addr: "nowhere.invalid:6379", MaxRetries: -1,
		Dialer: func(_ context.Context, network, addr string) (net.Conn, error) {
			return nil, &net.OpError{
				Op: "dial", Net: network, Err: &net.DNSError{Err: "no such host", Name: addr, IsNotFound: true},
			}
		},
	},
	"no answer": {
		Addr: "127.0.0.1:1", MaxRetries: -1, DialTimeout: 5 * time.Millisecond,
		Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, &net.OpError{Op: "dial", Net: network, Err: ctx.Err()}
		},
	},
}
