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
			if !lies(lie, r.ID, out, answer) {
				return nil
			}
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

var listed int

// listOf returns the tools of a liar.
func listOf(lie string) string {
	object := `"inputSchema":{"type":"object"}`
	switch lie {
	case "names":
		return `{"tools":[{"name":"ok",` + object + `},{"name":"a.b",` + object + `},{"name":"list",` +
			`"inputSchema":{"type":"array"}},{"name":"none"},{"name":"long","description":"` +
			strings.Repeat("x", 20<<10) + `",` + object + `},{"name":"ref","inputSchema":{"type":"object",` +
			`"properties":{"a":{"$ref":"#/nowhere"}}}}]}`
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
