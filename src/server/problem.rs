//! What a request gets that is not answered by its handler: a problem document of RFC 9457.
//!
//! The `type` of each is the address of its heading below, and does not change. `title` and `detail` are for
//! people, and may.
//!
//!
//! ## key-missing
//!
//! `400`. The request needs an idempotency key and has none. Send one.
//!
//! ## key-malformed
//!
//! `400`. The key is empty, too long, given twice, or not visible ASCII. Correct it.
//!
//! ## unidentified
//!
//! `401`. It is not known whose key it is.
//!
//! ## body-incomplete
//!
//! `400`. The body ended before it was complete. Nothing was run; send it again.
//!
//! ## body-too-large
//!
//! `413`. The body is longer than this server takes. Nothing was run.
//!
//! ## key-in-progress
//!
//! `409` with `Retry-After`. A request with this key is being worked on. Ask again with the same key.
//!
//! ## key-reused
//!
//! `422`. The key belongs to another request. Take a new key for a new request.
//!
//! ## reconcile
//!
//! `409` without `Retry-After`. An earlier request with this key was interrupted where only a person can tell
//! whether it took effect. Do not send it under a new key; ask the operator.
//!
//! ## answer-not-kept
//!
//! `410`. The request was done, and its answer was too large to keep. Do not send it under a new key; look
//! the result up.
//!
//! ## store-unavailable
//!
//! `503` with `Retry-After`. Keys cannot be looked up. Nothing was run; ask again with the same key.
//!
//! ## not-recorded
//!
//! `503` with `Retry-After`. The request was perhaps done, and that could not be written down. Ask again with the
//! same key.
//!
//! ## handler-failed
//!
//! `500`. The handler broke down. Its key was given back: ask again with the same key.
//!
//! ## shutting-down
//!
//! `503` with `Retry-After`. Nothing was run; ask again with the same key.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};

/// What each `type` begins with.
const BASE: &str = "https://docs.rs/post-once/latest/post_once/server/problem/index.html#";

/// Why a request is not answered by its handler.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// It has no key.
    KeyMissing,
    /// Its key is none: why not.
    KeyMalformed(String),
    /// It is not known whose key it is.
    Unidentified,
    /// Its body was cut short.
    BodyIncomplete,
    /// Its body is longer than so many bytes.
    BodyTooLarge(u64),
    /// Its key is being worked on: come again after so long.
    InProgress(Duration),
    /// Its key belongs to another request.
    KeyReused,
    /// Only a person can tell what happened.
    Reconcile,
    /// Its answer was too large to keep.
    AnswerNotKept,
    /// Keys cannot be looked up.
    StoreUnavailable,
    /// What was done could not be written down.
    NotRecorded,
    /// The handler broke down.
    HandlerFailed,
    /// The server is about to stop.
    ShuttingDown,
}

/// When to ask again where nothing better is known.
const SOON: Duration = Duration::from_secs(1);

impl Problem {
    /// The status of its answer.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self {
            Problem::KeyMissing | Problem::KeyMalformed(_) | Problem::BodyIncomplete => {
                StatusCode::BAD_REQUEST
            }
            Problem::Unidentified => StatusCode::UNAUTHORIZED,
            Problem::BodyTooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Problem::InProgress(_) | Problem::Reconcile => StatusCode::CONFLICT,
            Problem::KeyReused => StatusCode::UNPROCESSABLE_ENTITY,
            Problem::AnswerNotKept => StatusCode::GONE,
            Problem::HandlerFailed => StatusCode::INTERNAL_SERVER_ERROR,
            Problem::StoreUnavailable | Problem::NotRecorded | Problem::ShuttingDown => {
                StatusCode::SERVICE_UNAVAILABLE
            }
        }
    }

    /// The last part of its `type`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Problem::KeyMissing => "key-missing",
            Problem::KeyMalformed(_) => "key-malformed",
            Problem::Unidentified => "unidentified",
            Problem::BodyIncomplete => "body-incomplete",
            Problem::BodyTooLarge(_) => "body-too-large",
            Problem::InProgress(_) => "key-in-progress",
            Problem::KeyReused => "key-reused",
            Problem::Reconcile => "reconcile",
            Problem::AnswerNotKept => "answer-not-kept",
            Problem::StoreUnavailable => "store-unavailable",
            Problem::NotRecorded => "not-recorded",
            Problem::HandlerFailed => "handler-failed",
            Problem::ShuttingDown => "shutting-down",
        }
    }

    fn title(&self) -> &'static str {
        match self {
            Problem::KeyMissing => "The request needs an idempotency key",
            Problem::KeyMalformed(_) => "The idempotency key is malformed",
            Problem::Unidentified => "It is not known whose idempotency key this is",
            Problem::BodyIncomplete => "The body ended before it was complete",
            Problem::BodyTooLarge(_) => "The body is too large",
            Problem::InProgress(_) => "A request with this idempotency key is in progress",
            Problem::KeyReused => "The idempotency key belongs to another request",
            Problem::Reconcile => "An earlier request with this idempotency key was interrupted",
            Problem::AnswerNotKept => "The answer to this idempotency key was too large to keep",
            Problem::StoreUnavailable => "Idempotency keys cannot be looked up now",
            Problem::NotRecorded => "The outcome could not be recorded",
            Problem::HandlerFailed => "The request failed",
            Problem::ShuttingDown => "The server is about to stop",
        }
    }

    fn detail(&self) -> String {
        match self {
            Problem::KeyMissing => "Send a key that is new for each operation.".to_owned(),
            Problem::KeyMalformed(why) => why.clone(),
            Problem::Unidentified => "Nothing was run. Authenticate first.".to_owned(),
            Problem::BodyIncomplete => {
                "Nothing was run. Send the request again with the same key.".to_owned()
            }
            Problem::BodyTooLarge(limit) => {
                format!("Nothing was run. At most {limit} bytes are taken.")
            }
            Problem::InProgress(_) => "Ask again with the same key.".to_owned(),
            Problem::KeyReused => {
                "Nothing was run. Method, path, query, media type or body differ from those of the \
                 first request with this key. Take a new key for a new operation."
                    .to_owned()
            }
            Problem::Reconcile => {
                "Only a person can tell whether it took effect. Do not send it under a new key; ask \
                 the operator of this server."
                    .to_owned()
            }
            Problem::AnswerNotKept => {
                "The request was done. Do not send it under a new key; look its result up."
                    .to_owned()
            }
            Problem::StoreUnavailable | Problem::ShuttingDown => {
                "Nothing was run. Ask again with the same key.".to_owned()
            }
            Problem::NotRecorded | Problem::HandlerFailed => {
                "Ask again with the same key.".to_owned()
            }
        }
    }

    /// When to ask again; whole seconds, 1 at least.
    #[must_use]
    pub fn retry_after(&self) -> Option<u64> {
        let wait = match self {
            Problem::InProgress(wait) => *wait,
            Problem::StoreUnavailable | Problem::NotRecorded | Problem::ShuttingDown => SOON,
            _ => return None,
        };
        let rounded = wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0));
        Some(rounded.max(1))
    }

    /// The answer.
    #[must_use]
    pub fn response(&self) -> Response<Bytes> {
        let document = serde_json::json!({
            "type": format!("{BASE}{}", self.name()),
            "title": self.title(),
            "status": self.status().as_u16(),
            "detail": self.detail(),
        });
        let mut response = Response::new(Bytes::from(document.to_string()));
        *response.status_mut() = self.status();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = self.retry_after() {
            headers.insert(RETRY_AFTER, seconds.into());
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Problem> {
        vec![
            Problem::KeyMissing,
            Problem::KeyMalformed("it is empty".to_owned()),
            Problem::Unidentified,
            Problem::BodyIncomplete,
            Problem::BodyTooLarge(7),
            Problem::InProgress(Duration::from_millis(1_500)),
            Problem::KeyReused,
            Problem::Reconcile,
            Problem::AnswerNotKept,
            Problem::StoreUnavailable,
            Problem::NotRecorded,
            Problem::HandlerFailed,
            Problem::ShuttingDown,
        ]
    }

    #[test]
    fn each_is_a_problem_document_whose_type_is_explained_on_this_page() {
        let page = include_str!("problem.rs");
        for problem in all() {
            let response = problem.response();
            let document: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
            assert_eq!(document["status"], problem.status().as_u16(), "{problem:?}");
            assert_eq!(response.status(), problem.status());
            assert_eq!(response.headers()[CONTENT_TYPE], "application/problem+json");
            let kind = document["type"].as_str().unwrap();
            let name = kind.strip_prefix(BASE).unwrap();
            let explained = format!("//! ## {name}\n//!\n//! `{}`", problem.status().as_u16());
            assert!(page.contains(&explained), "{name} is not explained");
        }
    }

    #[test]
    fn who_may_come_again_is_told_when_and_nobody_else() {
        let waits = |problem: &Problem| problem.retry_after();
        let later: Vec<_> =
            all().iter().filter(|problem| waits(problem).is_some()).cloned().collect();
        let expected = [
            Problem::InProgress(Duration::from_millis(1_500)),
            Problem::StoreUnavailable,
            Problem::NotRecorded,
            Problem::ShuttingDown,
        ];
        assert_eq!(later, expected);
        for (wait, seconds) in [(0, 1), (1, 1), (1_000, 1), (1_001, 2), (2_000, 2)] {
            let problem = Problem::InProgress(Duration::from_millis(wait));
            assert_eq!(waits(&problem), Some(seconds), "{wait} ms");
            assert_eq!(problem.response().headers()[RETRY_AFTER], seconds.to_string());
        }
    }
}
