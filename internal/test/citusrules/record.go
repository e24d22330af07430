package citusrules

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A Recorder keeps the statements that were sent through the pools of one configuration. It keeps each statement once.
type Recorder struct {
	mu      sync.Mutex
	sending map[*pgconn.PgConn]string
	// trees has for each tree the client's statement by which it came first.
	trees  map[printed]string
	broken map[string]Breach // by the statement
}

// printed is a tree and the lines of its functions. inside is empty if a client has sent the statement.
type printed struct{ tree, inside string }

// Record makes the pools of a configuration tell what they send.
func Record(c *pgxpool.Config) *Recorder {
	r := &Recorder{
		sending: make(map[*pgconn.PgConn]string), trees: make(map[printed]string), broken: make(map[string]Breach),
	}
	for setting, value := range map[string]string{
		"debug_print_parse": "on", "debug_pretty_print": "off", "client_min_messages": "log",
	} {
		c.ConnConfig.RuntimeParams[setting] = value
	}
	c.ConnConfig.Tracer = r
	c.ConnConfig.OnNotice = func(conn *pgconn.PgConn, n *pgconn.Notice) {
		if strings.HasPrefix(n.Message, "parse tree") {
			r.mu.Lock()
			defer r.mu.Unlock()
			p := printed{n.Detail, n.Where}
			if _, known := r.trees[p]; !known {
				r.trees[p] = r.sending[conn]
			}
		}
	}
	return r
}

func (r *Recorder) begin(conn *pgx.Conn, sql string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sending[conn.PgConn()] = sql
}

// TraceQueryStart notes the statement of a query.
func (r *Recorder) TraceQueryStart(ctx context.Context, c *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	r.begin(c, d.SQL)
	return ctx
}

// TraceQueryEnd does nothing.
func (r *Recorder) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TracePrepareStart notes the statement to prepare.
func (r *Recorder) TracePrepareStart(
	ctx context.Context, c *pgx.Conn, d pgx.TracePrepareStartData,
) context.Context {
	r.begin(c, d.SQL)
	return ctx
}

// TracePrepareEnd does nothing.
func (r *Recorder) TracePrepareEnd(context.Context, *pgx.Conn, pgx.TracePrepareEndData) {}

// TraceBatchStart judges a pipeline. Without BEGIN, Citus commits each statement of a pipeline by itself. The calls of
// one function stand alone, so they break no rule.
func (r *Recorder) TraceBatchStart(ctx context.Context, c *pgx.Conn, d pgx.TraceBatchStartData) context.Context {
	var all []string
	alone := true
	for _, q := range d.Batch.QueuedQueries {
		all = append(all, q.SQL)
		alone = alone && q.SQL == all[0]
	}
	text := strings.Join(all, ";\n")
	r.begin(c, text)
	if !alone {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.broken[text] = Breach{Rule: Pipeline, Statement: text}
	}
	return ctx
}

// TraceBatchQuery does nothing.
func (r *Recorder) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

// TraceBatchEnd does nothing.
func (r *Recorder) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// line finds the innermost function in PostgreSQL's account of where a statement is from.
var line = regexp.MustCompile(`PL/pgSQL function "?(?:[^\s(]*\.)?"?([^\s("]+)"?\(.*?\) line (\d+)`)

// Broken returns which rules the recorded statements broke, on the given tables that exist. It returns for each
// function the lines whose statements write.
func (r *Recorder) Broken(
	ctx context.Context, pool *pgxpool.Pool, tables ...string,
) ([]Breach, map[string][]string, error) {
	c, err := readCatalog(ctx, pool, tables)
	if err != nil {
		return nil, nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []Breach
	for _, b := range r.broken {
		all = append(all, b)
	}
	writes := make(map[string][]string)
	for p, from := range r.trees {
		n := parse(p.tree)
		if n == nil {
			return nil, nil, errors.New("not a tree: " + p.tree)
		}
		j := judge{catalog: c, client: p.inside == ""}
		j.query(n)
		for _, rule := range j.rules {
			all = append(all, Breach{rule, from, p.inside})
		}
		if at := line.FindStringSubmatch(p.inside); at != nil && n.text("commandType") != selects &&
			len(j.distributed(n)) > 0 {
			writes[at[1]] = append(writes[at[1]], at[2])
		}
	}
	return all, writes, nil
}
