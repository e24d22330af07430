package sqliteinbox_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"os"
	"path/filepath"

	_ "modernc.org/sqlite"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqliteinbox"
)

// Two people answer one question in two processes on one file. The first one decides, and both are told so. A third
// process finds the answer.
func ExampleStore() {
	dir, err := os.MkdirTemp("", "holdfast")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	open := func() *sqliteinbox.Store {
		db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "bot.db")+
			"?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
		if err != nil {
			log.Fatal(err)
		}
		s := sqliteinbox.New(db, nil)
		if _, err := db.ExecContext(context.Background(), s.Schema()); err != nil {
			log.Fatal(err)
		}
		return s
	}

	ctx := context.Background()
	key := inbox.Key{Orchestrator: "refunds", Session: "customer-7"}
	for _, by := range []string{"ada", "bob"} {
		it := inbox.Item{Key: key, Kind: inbox.Answer, ID: "question 1", By: by, Data: []byte(`{"approve":true}`)}
		first, err := open().Post(ctx, it)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(by, "decides:", first)
	}
	for it, err := range open().Items(ctx, key, inbox.Answer) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s answers %s: %s\n", it.By, it.ID, it.Data)
	}
	// Output:
	// ada decides: true
	// bob decides: false
	// ada answers question 1: {"approve":true}
}
