package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
)

// ErrUnfit is wrapped by an error of [DB.Check], if trying again does not help. The message says what to change.
var ErrUnfit = errors.New("redis: the server is not fit")

// least is the first version that is fit.
var least = []int{6, 2}

// Check reports whether the stores can work on each server: its version, its policy, and the rights of the user. It
// changes nothing. A server before 7 cannot tell all rights, and one that forbids INFO tells neither its version nor
// its policy: what Check cannot learn is left to the first use.
func (db *DB) Check(ctx context.Context) error {
	return redisstore.EachServer(ctx, db.client, db.look)
}

// look is Check for one server.
func (db *DB) look(ctx context.Context, c redis.Cmdable) error {
	info, err := c.Info(ctx).Result()
	if err != nil && !redis.HasErrorPrefix(err, "NOPERM") {
		return fmt.Errorf("redis: %w", err)
	}
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "redis_version" && slices.Compare(numbers(value), least) < 0 {
			return fmt.Errorf("%w: it is version %s: 6.2 or later is needed", ErrUnfit, value)
		}
	}
	if err := redisstore.AskPolicy(ctx, c); errors.Is(err, ErrEviction) {
		return fmt.Errorf("%w: %w", ErrUnfit, err)
	}
	denied, err := c.Eval(ctx, rights, nil, db.prefix+"check").StringSlice()
	switch {
	case redis.HasErrorPrefix(err, "NOPERM"):
		return fmt.Errorf("%w: the user lacks a right: docs/operations.md has those that suffice: %w", ErrUnfit, err)
	case err != nil:
		return fmt.Errorf("redis: %w", err)
	case len(denied) > 0:
		return fmt.Errorf("%w: the user must not call %s on %s*: docs/operations.md has the rights that suffice",
			ErrUnfit, strings.Join(denied, ", "), db.prefix)
	}
	return nil
}

// numbers returns the numbers of a version.
func numbers(version string) (n []int) {
	for part := range strings.SplitSeq(version, ".") {
		i, err := strconv.Atoi(part)
		if err != nil {
			break
		}
		n = append(n, i)
	}
	return n
}

// rights returns which commands of the scripts the user may not call on a key, or on a channel of that name.
const rights = `
local denied = {}
if not redis.acl_check_cmd then
	return denied
end
local k = ARGV[1]
for _, command in ipairs({
	{'DEL', k}, {'EXISTS', k}, {'GET', k}, {'SET', k, 'v'}, {'UNLINK', k}, {'TIME'}, {'PUBLISH', k, 'm'},
	{'HDEL', k, 'f'}, {'HEXISTS', k, 'f'}, {'HGET', k, 'f'}, {'HKEYS', k}, {'HMGET', k, 'f'}, {'HSET', k, 'f', 'v'},
	{'PERSIST', k}, {'PEXPIRE', k, '1'}, {'PEXPIREAT', k, '1'}, {'PTTL', k},
	{'XADD', k, '*', 'f', 'v'}, {'XDEL', k, '0-1'}, {'XRANGE', k, '-', '+'}, {'XREVRANGE', k, '+', '-'},
	{'XTRIM', k, 'MAXLEN', '1'}, {'ZADD', k, '0', 'm'}, {'ZRANGE', k, '0', '1'}, {'ZREM', k, 'm'},
}) do
	if not redis.acl_check_cmd(unpack(command)) then
		table.insert(denied, command[1])
	end
end
return denied`
