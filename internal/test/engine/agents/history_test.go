package agents_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/internal/test/faulttest"
)

// Histories of two processes on one site.
func TestAgentHistories(t *testing.T) {
	for name, on := range sites {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := on(t)
			if s.Postgres != "" {
				s.Postgres += "0" // 40 connections
			}
			faulttest.AgentHistories(t, func(t *testing.T) (all [2]agent.Stores) {
				for i := range all {
					st, shut, err := s.open(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(shut)
					st.TurnLog = nil
					all[i] = st
				}
				return all
			}, 10*faulttest.Histories())
		})
	}
}
