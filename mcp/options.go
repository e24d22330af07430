package mcp

import (
	"cmp"
	"encoding/json"
	"log/slog"
	"net/http"
	"time"

	"github.com/holdfast-go/holdfast/ledger"
)

// Options say what is taken of a server, and how far it is believed. nil is the zero Options.
type Options struct {
	// Prefix stands before the name of each tool, so that the tools of several servers have different names.
	Prefix string

	// Only names the tools that are taken, as the server calls them. nil takes all.
	Only []string

	// Trust believes the hints of the server. Without it each tool is of the class ledger.Ask.
	Trust bool

	// Classes has the classes of tools that the program knows, by the name that the server has for them. They stand
	// above the hints.
	Classes map[string]ledger.Class

	// Approve says whether a person has to agree to a call. If it is nil, a person has to agree to each tool that is
	// neither in Classes nor, with Trust, harmless by its hints.
	Approve func(tool string, args json.RawMessage) bool

	Timeout      time.Duration // of a call; 0 means 1 minute
	StartTimeout time.Duration // until a server has listed its tools; 0 means 30 seconds

	// MaxResult is how many bytes of a result the model sees. 0 means 128 KiB. A message of the server above 16 MiB is
	// not read: the connection ends.
	MaxResult int

	// HTTPClient is for the servers behind HTTP. It may sign requests, for example. nil has a transport of its own.
	HTTPClient *http.Client

	Logger *slog.Logger // nil means slog.Default
}

// maxMessage is how many bytes a message of a server may have.
const maxMessage = 16 << 20

func (o *Options) withDefaults() Options {
	var with Options
	if o != nil {
		with = *o
	}
	with.Timeout = cmp.Or(with.Timeout, time.Minute)
	with.StartTimeout = cmp.Or(with.StartTimeout, 30*time.Second)
	with.MaxResult = cmp.Or(with.MaxResult, 128<<10)
	with.Logger = cmp.Or(with.Logger, slog.Default())
	return with
}
