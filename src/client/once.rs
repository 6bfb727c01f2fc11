//! Building one operation.

use std::fmt;
use std::time::Duration;

use http::Extensions;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Body, Request, Response};
use serde::Serialize;

use super::Client;
use crate::contract::Contract;
use crate::error::Error;
use crate::journal::Draft;
use crate::key::IdempotencyKey;
use crate::operation::{Operation, OperationState, Options};
use crate::refusal::Refusal;
use crate::retry::RetryPolicy;

/// One operation that is being described. Nothing is sent before [`send`](OperationBuilder::send).
#[must_use = "an operation does nothing until it is sent"]
pub struct OperationBuilder<'a> {
    client: &'a Client,
    request: Result<(Request, Extensions), Refusal>,
    options: Options,
}

impl<'a> OperationBuilder<'a> {
    pub(super) fn new(
        client: &'a Client,
        request: Result<(Request, Extensions), Refusal>,
    ) -> OperationBuilder<'a> {
        OperationBuilder { client, request, options: Options::default() }
    }

    /// The body, as JSON, with its content type unless one is set already.
    pub fn json<B: Serialize + ?Sized>(self, body: &B) -> Self {
        self.typed("application/json", || serde_json::to_vec(body).map_err(Refusal::Json))
    }

    /// The body, as a form, with its content type unless one is set already.
    pub fn form<B: Serialize + ?Sized>(self, body: &B) -> Self {
        self.typed("application/x-www-form-urlencoded", || {
            serde_urlencoded::to_string(body).map(String::into_bytes).map_err(Refusal::Form)
        })
    }

    /// The body. A stream is sent once and never again: give bytes wherever you can.
    pub fn body(self, body: impl Into<Body>) -> Self {
        self.change(|request| {
            *request.body_mut() = Some(body.into());
            Ok(())
        })
    }

    /// Adds a header, beside any of the same name.
    pub fn header<K, V>(self, name: K, value: V) -> Self
    where
        HeaderName: TryFrom<K>,
        <HeaderName as TryFrom<K>>::Error: Into<http::Error>,
        HeaderValue: TryFrom<V>,
        <HeaderValue as TryFrom<V>>::Error: Into<http::Error>,
    {
        self.change(|request| {
            let name = HeaderName::try_from(name).map_err(|e| Refusal::Header(e.into()))?;
            let value = HeaderValue::try_from(value).map_err(|e| Refusal::Header(e.into()))?;
            request.headers_mut().append(name, value);
            Ok(())
        })
    }

    /// Sets these headers, instead of any of the same names.
    pub fn headers(self, headers: HeaderMap) -> Self {
        self.change(|request| {
            for name in headers.keys() {
                request.headers_mut().remove(name);
            }
            request.headers_mut().extend(headers);
            Ok(())
        })
    }

    /// A bearer token, marked sensitive.
    pub fn bearer_auth(self, token: impl fmt::Display) -> Self {
        self.change(|request| {
            let value = HeaderValue::try_from(format!("Bearer {token}"));
            let mut value = value.map_err(|e| Refusal::Header(e.into()))?;
            value.set_sensitive(true);
            request.headers_mut().insert(AUTHORIZATION, value);
            Ok(())
        })
    }

    /// The key, instead of a new one.
    pub fn key(mut self, key: IdempotencyKey) -> Self {
        self.options.key = Some(key);
        self
    }

    /// The policy of this operation, instead of the client's.
    pub fn policy(mut self, policy: RetryPolicy) -> Self {
        self.options.policy = Some(policy);
        self
    }

    /// The contract of the server that this operation goes to, instead of the client's.
    pub fn contract(mut self, contract: Contract) -> Self {
        self.options.contract = Some(contract);
        self
    }

    /// The limit of the whole call, waits included, instead of the policy's. Above zero.
    pub fn deadline(mut self, limit: Duration) -> Self {
        self.options.deadline = Some(limit);
        self
    }

    /// The operation's name in the journal, unique in its scope: an order's number, a job's id. Called
    /// again, here or in any other process, it is the same operation: its stored answer is returned, or it
    /// is taken over under the same key.
    pub fn operation(mut self, name: impl Into<String>) -> Self {
        self.options.name = Some(name.into());
        self
    }

    /// The account that the operation belongs to: names count per scope, and the resumer sends it with
    /// the client of its scope.
    pub fn scope(mut self, scope: impl Into<String>) -> Self {
        self.options.scope = Some(scope.into());
        self
    }

    /// The caller's own JSON, kept with the operation and handed back with its outcome.
    pub fn context<C: Serialize + ?Sized>(mut self, context: &C) -> Self {
        match serde_json::to_string(context) {
            Ok(context) => self.options.context = Some(context),
            Err(error) => self.request = Err(Refusal::Json(error)),
        }
        self
    }

    /// When the call ends without an answer that closes the operation, the resumer goes on until the
    /// window ends.
    pub fn keep_trying(mut self) -> Self {
        self.options.keep_trying = true;
        self
    }

    /// Gives the operation its key, and sends nothing: so that the key can go into the caller's own
    /// records first. [`Client::send`] sends it.
    ///
    /// # Errors
    /// When it cannot be sent as it is: an unusable URL, header, key or body.
    pub fn prepare(self) -> Result<Operation, Error> {
        let engine = &self.client.engine;
        let contract = engine.contract(&self.options).clone();
        if engine.journaling.is_none() && self.options.needs_journal() {
            return Err(Error::refused(Refusal::NoJournal));
        }
        let (request, extensions) = self.request.map_err(Error::refused)?;
        let state = engine.fingerprinted(OperationState::default(), &request);
        Operation::seal(request, self.options, extensions, &contract, state).map_err(Error::refused)
    }

    /// Gives the operation its key, and makes it ready to be written into a journal in the caller's own
    /// transaction, for the resumer to send: the transactional outbox.
    ///
    /// # Errors
    /// As [`prepare`](OperationBuilder::prepare); and when the client has no journal, the body is a
    /// stream, or the method needs no key.
    pub fn draft(mut self) -> Result<Draft, Error> {
        self.options.keep_trying = true;
        let client = self.client;
        let operation = self.prepare()?;
        client.engine.draft(&operation).map_err(Error::refused)
    }

    /// Writes the operation into the client's journal, and sends nothing: the resumer does. Returns its
    /// key; of an operation whose name is there already, the key that it has.
    ///
    /// # Errors
    /// As [`draft`](OperationBuilder::draft); when the name stands for another request; and when the
    /// journal fails.
    pub async fn enqueue(self) -> Result<IdempotencyKey, Error> {
        let client = self.client;
        let draft = self.draft()?;
        client.engine.enqueue(&draft).await
    }

    /// Sends the operation, over as many attempts as the policy allows.
    ///
    /// # Errors
    /// As [`Client::post_once`].
    pub async fn send(self) -> Result<Response, Error> {
        let client = self.client;
        client.send(&mut self.prepare()?).await
    }

    fn typed(self, kind: &'static str, body: impl FnOnce() -> Result<Vec<u8>, Refusal>) -> Self {
        self.change(|request| {
            *request.body_mut() = Some(body()?.into());
            let kind = HeaderValue::from_static(kind);
            request.headers_mut().entry(CONTENT_TYPE).or_insert(kind);
            Ok(())
        })
    }

    fn change(mut self, change: impl FnOnce(&mut Request) -> Result<(), Refusal>) -> Self {
        if let Ok((request, _)) = &mut self.request
            && let Err(refusal) = change(request)
        {
            self.request = Err(refusal);
        }
        self
    }
}

impl fmt::Debug for OperationBuilder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OperationBuilder").field("key", &self.options.key).finish_non_exhaustive()
    }
}
