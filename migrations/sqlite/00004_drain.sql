-- The indexes of the runs that wait for no person, and of the effects that a person has answered: see Query.Unattended of
-- package snapshot, and Query.AnsweredWithin of package ledger.

-- +goose Up
CREATE INDEX IF NOT EXISTS holdfast_runs_drain ON holdfast_runs (orchestrator, session) WHERE deleted_at IS NULL AND status IS NOT 'suspended' AND status IS NOT 'parked';

CREATE INDEX IF NOT EXISTS holdfast_effects_answer ON holdfast_effects (answered_at) WHERE answered_at IS NOT NULL;

-- +goose Down
DROP INDEX IF EXISTS holdfast_effects_answer;
DROP INDEX IF EXISTS holdfast_runs_drain;
