//! An HTTP write that happens once: one idempotency key per operation, retries only when safe.
