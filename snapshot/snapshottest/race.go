package snapshottest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

// races is how often a race is run. It is enough to convict a store whose wrong window is a tenth of a statement's
// time.
const races = 60

var raceClauses = []clause{
	{
		name: "begin-race",
		rule: "of racing Begins one wins and the others get the winner: never two, never neither",
		check: func(p *probe) {
			for n := range races {
				session := fmt.Sprintf("s%d", n)
				rs := []snapshot.Run{run(session, fence(1)), run(session, fence(2)), run(session, fence(3))}
				rs = append(rs, rs[0]) // the same run, from another process
				rs[3].Fence = fence(4)
				found := make([]*snapshot.Run, len(rs))
				errs := make([]error, len(rs))
				var fs []func()
				for i := range rs {
					fs = append(fs, func() { found[i], errs[i] = p.store.Begin(p.ctx, rs[i]) })
				}
				together(fs...)
				ok(errors.Join(errs...))
				winner := slices.Index(found, nil)
				if winner < 0 {
					fail("no Begin won")
				}
				for i, f := range found {
					switch {
					case i == winner:
					case f == nil:
						fail("Begins of %s and %s both won", rs[winner].ID, rs[i].ID)
					default:
						ok(sameRun(*f, bare(rs[winner])))
					}
				}
				p.wantRun(rs[winner])
			}
		},
	},
	{
		name: "begin-delete-race",
		rule: "a Begin that races a Delete finds the run or begins, and nothing is lost",
		check: func(p *probe) {
			for n := range int64(races) {
				r := run("a", fence(10+2*n))
				p.begin(r)
				late := run("a", fence(11+2*n))
				var found *snapshot.Run
				var begun, deleted error
				together(
					func() { found, begun = p.store.Begin(p.ctx, late) },
					func() { deleted = p.store.Delete(p.ctx, r.Key, r.ID, r.Fence) })
				ok(errors.Join(begun, deleted))
				if found == nil {
					p.wantRun(late)
					ok(p.store.Delete(p.ctx, late.Key, late.ID, late.Fence))
					continue
				}
				ok(sameRun(*found, r))
				p.wantNone("a")
			}
		},
	},
	{
		name: "adopt-save-race",
		rule: "Adopt returns every acknowledged Save with all its parts, and nothing of other owners appears later",
		check: func(p *probe) {
			r := p.begun("a")
			for n := range races {
				save, saved := added(r, fmt.Sprintf("part-%d", n%7))
				if n%4 == 0 {
					save = next(r)
					save.Parts = map[string]json.RawMessage{"only": json.RawMessage(`1`)}
					saved = save
				}
				var wrote, took error
				var got snapshot.Run
				together(
					func() { wrote = p.store.Save(p.ctx, save) },
					func() { got, took = p.store.Adopt(p.ctx, r.Key, fence(int64(20+n)), 1<<20) })
				ok(took)
				if wrote != nil {
					want(wrote, lock.ErrFenced)
					saved = r
				}
				saved.Fence, saved.Attempt = got.Fence, r.Attempt+1
				if err := sameRun(got, saved); err != nil {
					fail("Save returned %v, and Adopt something else: %w", wrote, err)
				}
				p.wantWhole(got)
				r = got
			}
		},
	},
	{
		name: "adopt-race",
		rule: "of racing Adopts the highest fence owns the run, and every one that succeeded counted once",
		check: func(p *probe) {
			for n := range races / 3 {
				session := fmt.Sprintf("s%d", n)
				r := p.begun(session)
				fences := []lock.Fence{fence(20), fence(21), fence(22)}
				errs := make([]error, len(fences))
				var fs []func()
				for i, f := range fences {
					fs = append(fs, func() { _, errs[i] = p.store.Adopt(p.ctx, r.Key, f, 1<<20) })
				}
				together(fs...)
				attempts := 1
				for _, err := range errs {
					if err == nil {
						attempts++
						continue
					}
					want(err, lock.ErrFenced)
				}
				ok(errs[2])
				if got := p.inFlight(session); got.Fence != fences[2] || got.Attempt != attempts {
					fail("fence %v and attempt %d, want %v and %d", got.Fence, got.Attempt, fences[2], attempts)
				}
			}
		},
	},
	{
		name: "adopt-begin-race",
		rule: "a Begin does not fence a racing Adopt of a higher fence: Adopt takes the run over, or there is none",
		check: func(p *probe) {
			for n, start := int64(0), time.Now(); n < races && time.Since(start) < time.Second/2; n++ {
				late, f := run("a", fence(10+2*n)), fence(11+2*n)
				var found *snapshot.Run
				var begun, deleted error
				fs := []func(){func() {
					if found, begun = p.store.Begin(p.ctx, late); begun == nil && found == nil {
						deleted = p.store.Delete(p.ctx, late.Key, late.ID, late.Fence)
					}
				}}
				// Copies of one call are sent, and each has its own window.
				got, took := make([]snapshot.Run, 3), make([]error, 3)
				for i := range took {
					fs = append(fs, func() { got[i], took[i] = p.store.Adopt(p.ctx, late.Key, f, 1<<20) })
				}
				together(fs...)
				if found != nil {
					fail("Begin of %s finds %s in flight", late.ID, found.ID)
				}
				if begun != nil {
					want(begun, lock.ErrFenced)
				}
				adopted := late
				adopted.Fence, adopted.Attempt = f, 2
				taken := false
				for i, err := range took {
					if errors.Is(err, snapshot.ErrNotFound) {
						continue
					}
					ok(err)
					ok(sameRun(got[i], adopted))
					taken = true
				}
				if !taken {
					ok(deleted)
					p.wantNone("a")
					continue
				}
				ok(begun)
				want(deleted, lock.ErrFenced)
				p.wantRun(adopted)
				ok(p.store.Delete(p.ctx, adopted.Key, adopted.ID, f))
			}
		},
	},
}

var valueClauses = []clause{
	{
		name: "values-accepted",
		rule: "every backend takes these documents and names, and gives back equal values",
		check: func(p *probe) {
			for i, doc := range []string{
				`0`, `null`, `true`, `""`, `[]`, `{}`, ` [ 1 , 2 ] `, `-5`, `1.5`, `9007199254740993`,
				`{"b":1,"a":{"c":[null,false]}}`, `"\ud83d\ude00"`, `"\\u0000"`,
				strings.Repeat("[", 100) + strings.Repeat("]", 100), `{"big":"` + strings.Repeat("x", 1<<20) + `"}`,
			} {
				r := run(fmt.Sprintf("s%d", i), fence(1))
				r.Payload = json.RawMessage(doc)
				p.begin(r)
				p.wantRun(r)
				r.Seq++
				p.save(r)
				p.wantRun(r)
			}
			for _, id := range []string{
				"a_", "%", ":", "{}", "}{", "/", " ", "\n", "a'b\"c;--", `\`, "😀", strings.Repeat("x", 512),
				strings.Repeat("é", 256),
			} {
				r := run("x", fence(1<<62))
				r.Key, r.ID, r.RequestID, r.Base, r.Error = snapshot.Key{Orchestrator: bot, Session: id}, id, id, id, id
				p.begin(r)
				p.wantRun(r)
			}
			long := run("long", fence(1))
			long.Error = strings.Repeat("é", snapshot.MaxError/2)
			p.begin(long)
			p.wantRun(long)
		},
	},
	{
		name: "values-refused",
		rule: "every backend refuses these with ErrInvalid, and changes nothing",
		check: func(p *probe) {
			kept := p.begun("kept")
			for i, spoil := range []func(r *snapshot.Run){
				func(r *snapshot.Run) { r.Orchestrator = "" },
				func(r *snapshot.Run) { r.Session = strings.Repeat("x", 513) },
				func(r *snapshot.Run) { r.ID = "" },
				func(r *snapshot.Run) { r.ID = "a\x00" },
				func(r *snapshot.Run) { r.RequestID = "\xff" },
				func(r *snapshot.Run) { r.Base = strings.Repeat("x", 513) },
				func(r *snapshot.Run) { r.Turn = -1 },
				func(r *snapshot.Run) { r.Attempt = -1 },
				func(r *snapshot.Run) { r.Seq = -1 },
				func(r *snapshot.Run) { r.Status = "" },
				func(r *snapshot.Run) { r.Status = "done" },
				func(r *snapshot.Run) { r.Fence = lock.Fence{} },
				func(r *snapshot.Run) { r.Fence.Nonce = "" },
				func(r *snapshot.Run) { r.Fence.Epoch = 0 },
				func(r *snapshot.Run) { r.Error = "\xff" },
				func(r *snapshot.Run) { r.Error = strings.Repeat("x", snapshot.MaxError+1) },
				func(r *snapshot.Run) { r.Payload = json.RawMessage(`{`) },
				func(r *snapshot.Run) { r.Payload = json.RawMessage(`"\u0000"`) },
				func(r *snapshot.Run) { r.Payload = json.RawMessage(`"` + strings.Repeat("x", 16<<20) + `"`) },
				func(r *snapshot.Run) { r.Payload = json.RawMessage(strings.Repeat(" ", 32<<20) + `1`) },
				func(r *snapshot.Run) { r.Payload = json.RawMessage(`[` + strings.Repeat(`{},`, 400_000) + `{}]`) },
				func(r *snapshot.Run) { r.Pause = -1 },
				func(r *snapshot.Run) { r.Pause = 367 * 24 * time.Hour },
			} {
				r := run("new", fence(11))
				spoil(&r)
				_, err := p.store.Begin(p.ctx, r)
				if !errors.Is(err, snapshot.ErrInvalid) {
					fail("Begin of broken run %d returns %v", i, err)
				}
				r = next(kept)
				spoil(&r)
				if err := p.store.Save(p.ctx, r); !errors.Is(err, snapshot.ErrInvalid) {
					fail("Save of broken run %d returns %v", i, err)
				}
			}
			_, err := p.store.Adopt(p.ctx, kept.Key, fence(11), -1)
			want(err, snapshot.ErrInvalid)
			_, err = p.store.Adopt(p.ctx, kept.Key, lock.Fence{Epoch: 11}, 1)
			want(err, snapshot.ErrInvalid)
			_, err = p.store.Adopt(p.ctx, key(""), fence(11), 1)
			want(err, snapshot.ErrInvalid)
			want(p.store.Delete(p.ctx, key(""), kept.ID, kept.Fence), snapshot.ErrInvalid)
			want(p.store.Delete(p.ctx, kept.Key, "", kept.Fence), snapshot.ErrInvalid)
			p.wantSessions(snapshot.Query{}, "kept")
			p.wantRun(kept)
		},
	},
}
