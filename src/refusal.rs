//! Input that is refused before anything is sent.

use thiserror::Error;

use crate::key::KeyError;

/// Input that is refused before anything is sent.
#[derive(Debug, Error)]
pub(crate) enum Refusal {
    #[error("the URL cannot be used: {0}; give an absolute http or https URL")]
    Url(&'static str),
    #[error("the URL holds a user name or password; give credentials as a header instead")]
    Userinfo,
    #[error("two idempotency keys were given; an operation has exactly one")]
    TwoKeys,
    #[error("{0}")]
    Key(#[from] KeyError),
    #[error("the body cannot carry the key: {0}")]
    Member(&'static str),
    #[error("a header cannot be sent: {0}")]
    Header(#[source] http::Error),
    #[error("the body cannot be written as JSON")]
    Json(#[source] serde_json::Error),
    #[error("the body cannot be written as a form")]
    Form(#[source] serde_urlencoded::ser::Error),
    #[error("the deadline is zero, so nothing could ever be sent; give a time above zero")]
    Deadline,
    #[error(
        "the body is a stream that was sent already; build the operation again with the same key"
    )]
    BodyGone,
    #[error("a named, scoped or kept operation needs a journal; give the client one")]
    NoJournal,
    #[error(
        "no origin is allowed to be sent to; name those that the journal's operations may go to"
    )]
    NoOrigin,
    #[error("an operation without a key is not written down; use POST, PATCH, or give it a key")]
    NoKey,
    #[error("the body is above the journal's limit; raise the limit, or send it without a journal")]
    BodyTooLarge,
    #[error("the request could not be built")]
    Request(#[source] reqwest::Error),
    #[error("the HTTP client could not be built")]
    Client(#[source] reqwest::Error),
}
