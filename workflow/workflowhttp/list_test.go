package workflowhttp_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/workflow"
	"github.com/holdfast-go/holdfast/workflow/workflowhttp"
)

// A page is what these tests read of a list.
type page struct {
	Runs []struct {
		ID      string
		Damaged bool
	}
	Next string
}

func (p page) ids() (all []string) {
	for _, r := range p.Runs {
		all = append(all, r.ID)
	}
	return all
}

// list returns a page of the runs of a workflow.
func list(t *testing.T, h http.Handler, name, query string) page {
	t.Helper()
	res := get("/v1/workflows/"+name+"/runs?"+query).to(t.Context(), h)
	if res.Code != http.StatusOK {
		t.Fatalf("%s is %d %s", query, res.Code, res.Body)
	}
	return decode[page](t, res.Body.Bytes())
}

// Each filter alone and several together select what they say.
func TestFilters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := new(workflow.Memory)
		begin := time.Now().UTC()
		for i, input := range []string{
			`{"user":{"id":42},"plan":"pro"}`, `{"user":{"id":"42"},"plan":"pro"}`, `{"user":{"id":42.0,"vip":true}}`,
			`{"tags":["a","b"],"note":null}`, `"plain"`,
		} {
			start(t, m, workflow.NewRun{ID: fmt.Sprint("r", i), Workflow: "onboard", Input: json.RawMessage(input)})
			time.Sleep(time.Hour)
		}
		start(t, m, workflow.NewRun{ID: "other", Workflow: "other", Input: []byte(`{"plan":"pro"}`)})
		if _, err := m.Send(t.Context(), []workflow.Message{{Run: "r2", Action: workflow.Cancel}}); err != nil {
			t.Fatal(err)
		}
		h := workflowhttp.New(m, &workflowhttp.Options{Authorize: anyone})
		at := func(hours int) string {
			return url.QueryEscape(begin.Add(time.Duration(hours) * time.Hour).Format(time.RFC3339))
		}
		day := begin.AddDate(0, 0, 1).Format(time.DateOnly)
		for query, want := range map[string]string{
			"":                                "r4 r3 r2 r1 r0",
			"status=running":                  "r4 r3 r1 r0",
			"status=cancelled":                "r2",
			"status=failed":                   "",
			"since=" + at(3):                  "r4 r3",
			"until=" + at(2):                  "r1 r0",
			"until=" + day:                    "r4 r3 r2 r1 r0",
			"since=" + day:                    "",
			"limit=2":                         "r4 r3",
			"input.user.id=42":                "r2 r0",
			"input.user.id=4.2e1":             "r2 r0",
			"input.user.id=%2242%22":          "r1",
			"input.user={%22id%22:42}":        "r2 r0",
			"input.user.vip=true":             "r2",
			"input.user.vip=%22true%22":       "",
			"input.plan=pro":                  "r1 r0",
			"input.note=null":                 "r3",
			"input.tags=[%22b%22]":            "r3",
			"input.tags=b":                    "",
			"input.plan=pro&input.user.id=42": "r0",
			"input.user.id=42&input.user.vip=true&status=cancelled&limit=1":      "r2",
			"input.user.id=42&status=running&since=" + at(0) + "&until=" + at(1): "r0",
			"input.user.id=42&since=" + at(1) + "&until=" + at(2):                "",
		} {
			if got := strings.Join(list(t, h, "onboard", query).ids(), " "); got != want {
				t.Errorf("%s has %q, want %q", query, got, want)
			}
		}
	})
}

func anyone(*http.Request, workflowhttp.Action, workflowhttp.Target) error { return nil }

func start(t *testing.T, m *workflow.Memory, runs ...workflow.NewRun) {
	t.Helper()
	if _, err := m.Start(t.Context(), runs); err != nil {
		t.Fatal(err)
	}
}

// Runs that start while a client pages are on no later page, and move none: no run comes twice, and none is missing.
func TestPagesWhileRunsStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := new(workflow.Memory)
		var want []string
		for i := range 23 {
			id := fmt.Sprintf("old-%02d", i)
			start(t, m, workflow.NewRun{ID: id, Workflow: "w"})
			want = append(want, id)
			if i%5 == 0 { // the others start at one time
				time.Sleep(time.Second)
			}
		}
		h := workflowhttp.New(m, &workflowhttp.Options{Authorize: anyone})
		for _, limit := range []int{1, 4, 22, 23, 24} {
			var got []string
			query := fmt.Sprint("limit=", limit)
			for n := 0; query != ""; n++ {
				p := list(t, h, "w", query)
				if got = append(got, p.ids()...); len(p.Runs) > limit || p.Next != "" && len(p.Runs) != limit {
					t.Errorf("a page has %d runs, and the limit is %d", len(p.Runs), limit)
				}
				time.Sleep(time.Second)
				start(t, m, workflow.NewRun{ID: fmt.Sprintf("new-%d-%d", limit, n), Workflow: "w"})
				if query = ""; p.Next != "" {
					query = fmt.Sprintf("limit=%d&cursor=%s", limit, p.Next)
				}
			}
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Errorf("with a limit of %d the pages have %v, want %v", limit, got, want)
			}
			want = want[:0]
			for r, err := range m.Runs(t.Context(), workflow.Query{}) {
				if want = append(want, r.ID); err != nil {
					t.Fatal(err)
				}
			}
			slices.Sort(want)
		}
	})
}

// A page of large runs ends early, and the next one goes on.
func TestLargePages(t *testing.T) {
	m := new(workflow.Memory)
	large := json.RawMessage(`"` + ofSize(1<<19) + `"`)
	for range 20 {
		start(t, m, workflow.NewRun{ID: workflow.NewID(), Workflow: "w", Input: large})
	}
	h := workflowhttp.New(m, &workflowhttp.Options{Authorize: anyone})
	var sizes []int
	seen := make(map[string]bool)
	for query := "limit=500"; query != ""; {
		p := list(t, h, "w", query)
		for _, id := range p.ids() {
			seen[id] = true
		}
		sizes = append(sizes, len(p.Runs))
		query = ""
		if p.Next != "" {
			query = "limit=500&cursor=" + p.Next
		}
	}
	if !slices.Equal(sizes, []int{8, 8, 4}) || len(seen) != 20 {
		t.Errorf("the pages have %v runs, and %d in all", sizes, len(seen))
	}
}

// The index has each workflow and status once, as the runs have them.
func TestIndex(t *testing.T) {
	m := new(workflow.Memory)
	h := workflowhttp.New(m, &workflowhttp.Options{Authorize: anyone})
	if res := get("/v1/workflows").to(t.Context(), h); res.Body.String() != "[]\n" {
		t.Errorf("without runs it is %s", res.Body)
	}
	for i := range 5 {
		id := fmt.Sprint("r", i)
		start(t, m, workflow.NewRun{ID: id, Workflow: []string{"b", "a"}[i%2]})
		if i > 2 {
			path := "/v1/workflows/" + []string{"b", "a"}[i%2] + "/runs/" + id
			request{method: "DELETE", path: path}.to(t.Context(), h)
		}
	}
	const want = `[{"name":"a","running":1,"completed":0,"failed":0,"cancelled":1},` +
		`{"name":"b","running":2,"completed":0,"failed":0,"cancelled":1}]` + "\n"
	if res := get("/v1/workflows").to(t.Context(), h); res.Body.String() != want {
		t.Errorf("it is %s", res.Body)
	}
}

// FuzzList looks for a query that is answered otherwise than with a page or a refusal.
func FuzzList(f *testing.F) {
	for query := range badQueries {
		f.Add(query)
	}
	f.Add("status=running&input.a.b=1&input.a.c=x&limit=3&cursor=" + cursor("1y2p0ij32e8e7.r"))
	m := new(workflow.Memory)
	h := workflowhttp.New(m, &workflowhttp.Options{Authorize: anyone})
	f.Fuzz(func(t *testing.T, query string) {
		q := get("/v1/workflows/w/runs")
		r := q.make(t.Context(), "")
		r.URL.RawQuery = query
		res := sent(h, r)
		switch res.Code {
		case 200, 400, 422:
		default:
			t.Errorf("it is %d %s", res.Code, res.Body)
		}
	})
}
