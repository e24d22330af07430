package testenv

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// A RedisPair is a Redis and its replica, which belong to one test, and maybe Sentinels that watch them.
type RedisPair struct {
	Master, Replica *Server
	Sentinels       []string // addresses
}

// MasterName is the name of the master of a RedisPair for its Sentinels.
const MasterName = "holdfast"

// StartRedisPair starts a Redis with these settings and its replica, and returns when the replica follows.
func StartRedisPair(tb testing.TB, settings map[string]string) *RedisPair {
	tb.Helper()
	all := map[string]string{"repl-diskless-sync-delay": "0", "repl-ping-replica-period": "1"}
	for name, value := range settings {
		all[name] = value
	}
	p := &RedisPair{Master: StartRedis(tb, &Options{Settings: all}), Replica: StartRedis(tb, &Options{Settings: all})}
	p.follow(fmt.Sprint(p.Master.d.port))
	must(tb, p.await(p.Replica, "master_link_status:up"))
	must(tb, await(time.Minute, p.Master.d.proc.exited, p.streams))
	return p
}

// Watch starts three Sentinels. They fail over when the master does not answer for half a second.
func (p *RedisPair) Watch() {
	tb := p.Master.tb
	tb.Helper()
	for range 3 {
		s := startServer(tb, redisEngine{sentinel: true}, nil)
		p.Sentinels = append(p.Sentinels, s.d.addr())
		for _, command := range []string{
			fmt.Sprintf("SENTINEL MONITOR %s 127.0.0.1 %d 2", MasterName, p.Master.d.port),
			"SENTINEL SET " + MasterName + " down-after-milliseconds 500",
			"SENTINEL SET " + MasterName + " failover-timeout 2000",
		} {
			must(tb, tell(tb.Context(), s.d.addr(), command))
		}
	}
	for _, addr := range p.Sentinels {
		must(tb, await(time.Minute, nil, func(ctx context.Context) error { return p.watched(ctx, addr) }))
	}
}

// watched returns nil once a Sentinel knows the replica and the other Sentinels.
func (p *RedisPair) watched(ctx context.Context, addr string) error {
	c := redis.NewSentinelClient(&redis.Options{Addr: addr})
	defer func() { _ = c.Close() }()
	replicas, err := c.Replicas(ctx, MasterName).Result()
	if err != nil || len(replicas) != 1 || replicas[0]["flags"] != "slave" {
		return fmt.Errorf("replicas %v, %w", replicas, err)
	}
	others, err := c.Sentinels(ctx, MasterName).Result()
	if err != nil || len(others) != len(p.Sentinels)-1 {
		return fmt.Errorf("sentinels %v, %w", others, err)
	}
	return c.CkQuorum(ctx, MasterName).Err()
}

// Cut takes the replica's primary away. The replica stays a replica.
func (p *RedisPair) Cut() {
	p.Master.tb.Helper()
	p.follow("1")
	must(p.Master.tb, p.await(p.Replica, "master_link_status:down"))
}

// Promote makes the replica a master.
func (p *RedisPair) Promote() {
	p.Master.tb.Helper()
	must(p.Master.tb, tell(p.Master.tb.Context(), p.Replica.d.addr(), "REPLICAOF NO ONE"))
}

func (p *RedisPair) follow(port string) {
	p.Master.tb.Helper()
	must(p.Master.tb, tell(p.Master.tb.Context(), p.Replica.d.addr(), "REPLICAOF 127.0.0.1 "+port))
}

// streams returns nil once the replica receives writes: it is up for a while before.
func (p *RedisPair) streams(ctx context.Context) error {
	c := redis.NewClient(&redis.Options{Addr: p.Master.d.addr()})
	defer c.Close()
	pipe := c.Pipeline() // uses one connection
	pipe.Set(ctx, "testenv", "", 0)
	pipe.Del(ctx, "testenv")
	n := pipe.Do(ctx, "WAIT", 1, 1000)
	if _, err := pipe.Exec(ctx); err != nil {
		return err
	}
	if n.Val() != int64(1) {
		return fmt.Errorf("%v replicas have the write", n.Val())
	}
	return nil
}

// await returns when INFO replication of the server contains want.
func (*RedisPair) await(s *Server, want string) error {
	return await(time.Minute, s.d.proc.exited, func(ctx context.Context) error {
		c := redis.NewClient(&redis.Options{Addr: s.d.addr()})
		defer c.Close()
		text, err := c.Info(ctx, "replication").Result()
		if err == nil && !strings.Contains(text, want) {
			err = errors.New("no " + want + " in " + text)
		}
		return err
	})
}

// tell sends a command to a Redis.
func tell(ctx context.Context, addr, command string) error {
	c := redis.NewClient(&redis.Options{Addr: addr})
	defer c.Close()
	return c.Do(ctx, fields(command)...).Err()
}

func fields(command string) (args []any) {
	for _, f := range strings.Fields(command) {
		args = append(args, f)
	}
	return args
}
