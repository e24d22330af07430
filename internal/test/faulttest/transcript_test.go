package faulttest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/transcript"
)

func TestMemoryTranscript(t *testing.T) {
	newStore := func(*testing.T) transcript.Store { return new(transcript.Memory) }
	TranscriptModel(t, newStore)
	TranscriptHistories(t, newStore, 10*Histories())
}

// Histories of a session convict a store that breaks its promises at once, or only if two calls meet.
func TestTranscriptHistoriesConvict(t *testing.T) {
	convictHistories(t, scriptSpec, recordScripts, map[string]func() transcript.Store{
		"Append numbers what it has seen": func() transcript.Store { return numbersEarly{new(transcript.Memory)} },
		"a copy leaves what is there":     func() transcript.Store { return copiesNot{new(transcript.Memory)} },
		"Trim returns before it ends":     func() transcript.Store { return &trimsLate{Memory: new(transcript.Memory)} },
		"Trim happens twice":              func() transcript.Store { return trimsTwice{new(transcript.Memory)} },
	})
}

type (
	numbersEarly struct{ *transcript.Memory }
	copiesNot    struct{ *transcript.Memory }
	trimsTwice   struct{ *transcript.Memory }
)

// numbersEarly says the number that an entry would have had if no other had come between.
func (s numbersEarly) Append(
	ctx context.Context, k transcript.Key, id string, msgs []message.Message,
) (transcript.Span, error) {
	before, err := numbered(s.Read(ctx, k, []transcript.Span{{From: 1, Through: scriptMost}}))
	if err != nil {
		return transcript.Span{}, err
	}
	runtime.Gosched()
	span, err := s.Memory.Append(ctx, k, id, msgs)
	if strings.Contains(before, ":"+id+" ") || err != nil {
		return span, err
	}
	early := transcript.Span{From: 1, Through: span.Through - span.From + 1}
	if all := strings.Fields(before); len(all) > 0 {
		last, _, _ := strings.Cut(all[len(all)-1], ":")
		n, err := strconv.ParseInt(last, 10, 64)
		return transcript.Span{From: n + early.From, Through: n + early.Through}, err
	}
	return early, nil
}

// copiesNot finds nothing taken.
func (s copiesNot) Copy(ctx context.Context, from, to transcript.Key, spans []transcript.Span) error {
	if err := s.Memory.Copy(ctx, from, to, spans); !errors.Is(err, transcript.ErrTaken) {
		return err
	}
	return nil
}

// trimsLate deletes all of a session when the next caller trims.
type trimsLate struct {
	*transcript.Memory
	mu   sync.Mutex // protects following field
	late func() error
}

func (s *trimsLate) Trim(
	ctx context.Context, k transcript.Key, spans []transcript.Span, before time.Time,
) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.late != nil {
		if err := s.late(); err != nil {
			return 0, err
		}
		s.late = nil
	}
	if !before.IsZero() {
		return s.Memory.Trim(ctx, k, spans, before)
	}
	s.late = func() error {
		_, err := s.Memory.Trim(context.WithoutCancel(ctx), k, nil, time.Time{})
		return err
	}
	all, err := numbered(s.Read(ctx, k, []transcript.Span{{From: 1, Through: scriptMost}}))
	return strings.Count(all, ":"), err
}

// trimsTwice also trims what comes while the session is trimmed.
func (s trimsTwice) Trim(
	ctx context.Context, k transcript.Key, spans []transcript.Span, before time.Time,
) (int, error) {
	deleted, err := s.Memory.Trim(ctx, k, spans, before)
	if err != nil {
		return 0, err
	}
	runtime.Gosched()
	more, err := s.Memory.Trim(ctx, k, spans, before)
	return deleted + more, err
}

// scriptMost is more messages than a history has.
const scriptMost = 200

// numbered returns the texts of the messages from 1 on, by number.
func numbered(read iter.Seq2[message.Message, error]) (all string, err error) {
	n := int64(1)
	for m, err := range read {
		if d, is := errors.AsType[*transcript.DamagedError](err); is {
			through := d.ID[strings.LastIndexByte(d.ID, ' ')+1:]
			if _, err := fmt.Sscan(through, &n); err != nil {
				return "", err
			}
			n++
			continue
		}
		if err != nil {
			return "", err
		}
		all += fmt.Sprintf("%d:%s ", n, m.Blocks[0].Text)
		n++
	}
	return all, nil
}
