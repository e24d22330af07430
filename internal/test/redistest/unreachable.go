package redistest

import (
	"context"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
)

// Unreachable are the options of clients whose server cannot be reached, by why it cannot. Such a client dials again,
// as every client does, but without a pause: by default each call takes half a second.
var Unreachable = map[string]redis.Options{
	"down": {Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetryTimeout: time.Millisecond},
	"no such host": {
		Addr: "nowhere.invalid:6379", MaxRetries: -1, DialerRetryTimeout: time.Millisecond,
		Dialer: func(_ context.Context, network, addr string) (net.Conn, error) {
			return nil, &net.OpError{
				Op: "dial", Net: network, Err: &net.DNSError{Err: "no such host", Name: addr, IsNotFound: true},
			}
		},
	},
	"no answer": {
		Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetryTimeout: time.Millisecond, DialTimeout: 5 * time.Millisecond,
		Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, &net.OpError{Op: "dial", Net: network, Err: ctx.Err()}
		},
	},
}
