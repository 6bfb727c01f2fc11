//! How an attempt failed, with nothing in it that may not be shown.

use std::error::Error as StdError;
use std::fmt;

use bytes::Bytes;
use thiserror::Error;

/// An answer that is kept in an error. Its headers and body may hold secrets, so that it shows
/// nothing of itself.
pub(crate) struct Kept(pub(crate) http::Response<Bytes>);

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Kept").field(&self.0.status()).finish()
    }
}

/// How the last attempt failed.
#[derive(Debug)]
pub(crate) enum Cause {
    /// Our own limit on the attempt ran out.
    Timeout,
    /// The client failed; without its URL.
    Client(reqwest::Error),
    /// The stack failed in a way that holds no URL to hide.
    Stack(reqwest_middleware::Error),
    /// The stack failed with an error that shows the URL: its text, less the URL.
    Text(Flattened),
}

/// The texts of a chain of errors that could not be kept as it was.
#[derive(Debug, Error)]
#[error("{0}")]
pub(crate) struct Flattened(String);

impl Cause {
    /// Takes the error of a bare client, without its URL.
    pub(crate) fn of_client(error: reqwest::Error) -> Cause {
        Cause::Client(error.without_url())
    }

    /// Takes the error of a stack. Where a middleware wrapped an error that shows the URL, which may
    /// hold a secret in its query, the chain becomes text without it.
    pub(crate) fn of_stack(error: reqwest_middleware::Error, url: &reqwest::Url) -> Cause {
        let wrapped = match error {
            reqwest_middleware::Error::Reqwest(error) => return Cause::of_client(error),
            reqwest_middleware::Error::Middleware(error) => error,
        };
        let text = wrapped.chain().map(ToString::to_string).collect::<Vec<_>>().join(": ");
        let hidden = crate::redact::without_secrets(&text, url);
        // The alternate form is the derived one, which shows the fields that the text leaves out.
        let debug = format!("{wrapped:#?}");
        if hidden != text || crate::redact::without_secrets(&debug, url) != debug {
            return Cause::Text(Flattened(hidden));
        }
        Cause::Stack(reqwest_middleware::Error::Middleware(wrapped))
    }

    pub(super) fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Cause::Timeout => None,
            Cause::Client(error) => Some(error),
            Cause::Stack(error) => Some(error),
            Cause::Text(error) => Some(error),
        }
    }
}
