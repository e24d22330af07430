package mcp_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// serveLies is a server that speaks by hand. The lie says what it does wrong.
func serveLies(lie string, in io.Reader, out io.Writer) error {
	fmt.Fprintln(os.Stderr, "pid", os.Getpid())
	reader := bufio.NewReader(in)
	var calls []json.RawMessage
	for {
		line, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var r struct {
			ID     json.RawMessage
			Method string
			Result struct {
				Action  string
				Content json.RawMessage
			}
		}
		if err := json.Unmarshal(line, &r); err != nil {
			return err
		}
		answer := func(id json.RawMessage, what, doc string) {
			fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,%q:%s}`+"\n", id, what, doc)
		}
		switch {
		case lie == "mute":
		case r.Method == "initialize":
			answer(r.ID, "result", `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},`+
				`"serverInfo":{"name":"liar","version":"1"}}`)
		case r.Method == "tools/list":
			answer(r.ID, "result", listOf(lie))
			if lie == "deaf" {
				fmt.Fprintln(os.Stderr, "deaf")
				select {}
			}
		case r.Method == "tools/call":
			fmt.Fprintln(os.Stderr, "called")
			calls = append(calls, r.ID)
			if lie == "asks two" && len(calls) < 2 {
				continue
			}
			if !lies(lie, r.ID, out, answer) {
				return nil
			}
		case string(r.ID) == `"ask"`:
			asked(lie, calls, r.Result.Action, string(r.Result.Content), answer)
			calls = nil
		case len(r.ID) > 0:
			answer(r.ID, "error", `{"code":-32601,"message":"what?"}`)
		}
	}
}

// lies answers a call. It returns false if the server is to end.
func lies(lie string, id json.RawMessage, out io.Writer, answer func(id json.RawMessage, what, doc string)) bool {
	good := `{"content":[{"type":"text","text":"ok"}]}`
	switch lie {
	case "json":
		fmt.Fprintln(out, `{"jsonrpc": broken`)
	case "noid":
		fmt.Fprintln(out, `{"jsonrpc":"2.0","result":{}}`) // the library takes this for an invalid request
	case "ids":
		answer(json.RawMessage("4711"), "result", good)
		answer(json.RawMessage(`"x"`), "result", good)
	case "form":
		answer(id, "result", `{"content":"ok"}`)
	case "kind":
		answer(id, "result", `{"content":[{"type":"smell"}]}`)
	case "huge":
		answer(id, "result", `{"content":[{"type":"text","text":"`+strings.Repeat("x", 17<<20)+`"}]}`)
	case "ends":
		return false
	case "asks", "asks two", "asks goes on", "asks rpc":
		fmt.Fprintln(out, `{"jsonrpc":"2.0","id":"ask","method":"elicitation/create","params":{"mode":"form",`+
			`"message":"Which seat?","requestedSchema":{"type":"object","properties":{"seat":{"type":"string"}}}}}`)
	case "asks nothing":
		fmt.Fprintln(out, `{"jsonrpc":"2.0","id":"ask","method":"elicitation/create"}`)
	case "asks null":
		fmt.Fprintln(out, `{"jsonrpc":"2.0","id":"ask","method":"elicitation/create","params":null}`)
	case "silent":
	default:
		if code, ok := strings.CutPrefix(lie, "code "); ok {
			answer(id, "error", `{"code":`+code+`,"message":"so it is"}`)
			return true
		}
		answer(id, "result", good)
	}
	return true
}

// asked ends the calls with what came of a question within them.
func asked(lie string, calls []json.RawMessage, action, content string, answer func(json.RawMessage, string, string)) {
	fmt.Fprintln(os.Stderr, "heard", action)
	for _, id := range calls {
		switch {
		case action == "accept" || lie == "asks goes on" || lie == "asks null" || lie == "asks nothing":
			doc, _ := json.Marshal("booked " + content)
			answer(id, "result", `{"content":[{"type":"text","text":`+string(doc)+`}]}`)
		case lie == "asks rpc":
			answer(id, "error", `{"code":-32603,"message":"no seat"}`)
		default:
			answer(id, "result", `{"isError":true,"content":[{"type":"text","text":"no seat: `+action+`"}]}`)
		}
	}
}

var listed int

// listOf returns the tools of a liar.
func listOf(lie string) string {
	object := `"inputSchema":{"type":"object"}`
	switch lie {
	case "names":
		return `{"tools":[{"name":"ok",` + object + `},{"name":"a.b",` + object + `},{"name":"list",` +
			`"inputSchema":{"type":"array"}},{"name":"none"},{"name":"long","description":"` +
			strings.Repeat("x", 20<<10) + `",` + object + `},{"name":"ref","inputSchema":{"type":"object",` +
			`"properties":{"a":{"$ref":"#/nowhere"}}}},{"name":"self","inputSchema":{"type":"object","$ref":"#"}},` +
			`{"name":"nil","inputSchema":{"type":"object","$ref":"#/not"}}]}`
	case "twice":
		return `{"tools":[{"name":"ok",` + object + `},{"name":"ok",` + object + `}]}`
	case "endless":
		listed++
		return fmt.Sprintf(`{"tools":[{"name":"ok%d",%s}],"nextCursor":"more"}`, listed, object)
	case "list":
		return `{"tools":"none"}`
	}
	return `{"tools":[{"name":"ok",` + object + `,"annotations":{"readOnlyHint":true}}]}`
}
