package agui

import (
	"strconv"

	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/turnhttp"
)

// told returns a message of the bot's history as messages of AG-UI: one for its words and calls, and one for each
// result.
func told(number int, m message.Message) (all []any) {
	id := "m-" + strconv.Itoa(number)
	if m.Role == message.RoleUser && m.ID != "" { // that of the client who has said it
		id = m.ID
	}
	with := &clientMessage{ID: id, Role: m.Role}
	for _, part := range turnhttp.PartsOf(m) {
		switch part.Type {
		case turnhttp.PartCall:
			args := string(part.Args)
			with.ToolCalls = append(with.ToolCalls, toolCall{part.ID, "function", function{part.Name, args}})
		case turnhttp.PartResult:
			all = append(all, &clientMessage{
				ID: id + "-" + strconv.Itoa(len(all)), Role: "tool", Content: part.Text, ToolCallID: part.ID,
			})
		case turnhttp.PartText:
			with.Content += part.Text
		}
	}
	switch {
	case with.Content == "" && with.ToolCalls == nil:
	case m.Role == message.RoleUser, m.Role == message.RoleAssistant:
		all = append([]any{with}, all...)
	}
	return all
}
