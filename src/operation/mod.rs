//! One logical write: its request, its one key, and how far it has come.

mod member;
mod seal;
mod state;

use std::fmt;
use std::time::Duration;

use http::Extensions;
use reqwest::Request;

use crate::contract::Contract;
use crate::key::IdempotencyKey;
use crate::redact::Shown;
use crate::refusal::Refusal;
use crate::retry::RetryPolicy;

pub(crate) use seal::check_url;
pub(crate) use state::OperationState;

/// One logical write that has its key already, and is ready to be sent.
///
/// [`OperationBuilder::prepare`](crate::client::OperationBuilder::prepare) makes it, so that the key
/// can go into the caller's own records *before* anything is sent. Sent again, it continues: same
/// key, same bytes, and the window still counts from the first send.
pub struct Operation {
    /// `None` once a body that can be read once only has been sent.
    pub(crate) request: Option<Request>,
    pub(crate) options: Options,
    pub(crate) state: OperationState,
    pub(crate) extensions: Extensions,
}

impl Operation {
    /// Gives the request its key, from whoever has one: the options, the request itself, or a new
    /// one where the contract wants one.
    pub(crate) fn seal(
        mut request: Request,
        options: Options,
        extensions: Extensions,
        contract: &Contract,
        mut state: OperationState,
    ) -> Result<Operation, Refusal> {
        seal_request(&mut request, &options, contract, &mut state)?;
        Ok(Operation { request: Some(request), options, state, extensions })
    }

    /// The key; `None` for a method that needs none.
    #[must_use]
    pub fn key(&self) -> Option<&IdempotencyKey> {
        self.state.key.as_ref()
    }
}

impl fmt::Debug for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Operation");
        shown.field("key", &self.key());
        if let Some(request) = &self.request {
            shown.field("method", request.method());
            shown.field("url", &format_args!("{}", Shown(request.url())));
        }
        shown.field("attempts", &self.state.attempts).finish_non_exhaustive()
    }
}

/// What one operation does differently from its client.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    pub(crate) key: Option<IdempotencyKey>,
    pub(crate) policy: Option<RetryPolicy>,
    pub(crate) contract: Option<Contract>,
    pub(crate) deadline: Option<Duration>,
    /// The operation's name in the journal.
    pub(crate) name: Option<String>,
    pub(crate) scope: Option<String>,
    /// The caller's JSON, as text.
    pub(crate) context: Option<String>,
    /// The resumer goes on after the caller was told that it did not end.
    pub(crate) keep_trying: bool,
}

impl Options {
    /// Whether something was asked for that only a journal can do.
    pub(crate) fn needs_journal(&self) -> bool {
        self.name.is_some() || self.scope.is_some() || self.context.is_some() || self.keep_trying
    }
}

/// Gives the request the key of its operation, and the operation its key.
///
/// # Errors
/// When the request cannot be sent, two keys were given, or the contract does not take the key.
pub(crate) fn seal_request(
    request: &mut Request,
    options: &Options,
    contract: &Contract,
    state: &mut OperationState,
) -> Result<(), Refusal> {
    seal::check_url(request.url())?;
    if options.deadline.is_some_and(|limit| limit.is_zero()) {
        return Err(Refusal::Deadline);
    }
    let carried = seal::carried_key(request, contract)?;
    let given = seal::one_key(options.key.as_ref(), carried)?;
    if given.is_some() && state.key.is_some() && given != state.key {
        *state = state.renewed();
    }
    state.key_is_given |= given.is_some();
    let key = match given.or_else(|| state.key.take()) {
        Some(key) => key,
        None if contract.wants_key(request.method()) => IdempotencyKey::mint()?,
        None => return Ok(()),
    };
    seal::place_key(request, contract, &key)?;
    state.key = Some(key);
    Ok(())
}
