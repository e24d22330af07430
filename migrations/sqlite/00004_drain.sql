-- The index of the runs that wait for no person: see Query.Unattended of package snapshot.

-- +goose Up
CREATE INDEX IF NOT EXISTS holdfast_runs_drain ON holdfast_runs (orchestrator, session) WHERE deleted_at IS NULL AND status IS NOT 'suspended' AND status IS NOT 'parked';

-- +goose Down
DROP INDEX IF EXISTS holdfast_runs_drain;
