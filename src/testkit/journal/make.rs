//! Operations, outcomes and filters to test a journal with.

use std::time::Duration;

use bytes::Bytes;
use http::Method;

use crate::fingerprint::Fingerprint;
use crate::journal::{
    Draft, Due, List, Outcome, PastAttempt, RowId, State, StoredAnswer, StoredRequest, Terms, To,
    Trail,
};

/// An operation in the default scope, as a caller's `POST` of a small JSON body is written down. Its key
/// is its name, or this text when it has none.
#[must_use]
pub fn draft(name: Option<&str>, body: impl Into<Bytes>) -> Draft {
    let body = body.into();
    let url = "https://api.example.com/v1/charges";
    let media_type = "application/json";
    let key = name.unwrap_or("0d5ab9a6-7a4b-4f6f-8d4b-1d0f6a3f6f5e").to_owned();
    let header = |name: &str, value: &str| (name.to_owned(), value.as_bytes().to_vec());
    Draft {
        scope: String::new(),
        name: name.map(str::to_owned),
        request: StoredRequest {
            method: "POST".to_owned(),
            url: url.to_owned(),
            headers: vec![header("content-type", media_type), header("idempotency-key", &key)],
            body: body.clone(),
        },
        key,
        terms: Terms {
            missing: vec!["authorization".to_owned()],
            contract: "generic".to_owned(),
            window: Some((Duration::from_secs(86_400), Duration::from_secs(300))),
            fingerprint: Fingerprint::new(&Method::POST, url, Some(media_type), &body),
            context: None,
            keep_trying: false,
        },
    }
}

/// An attempt that ended with this status, or without an answer.
#[must_use]
pub fn past(number: u32, status: Option<u16>) -> PastAttempt {
    PastAttempt {
        number,
        started_ms: 1_767_225_600_000,
        waited_ms: 250,
        elapsed_ms: 31,
        known: if status.is_some() { "unavailable" } else { "ambiguous" }.to_owned(),
        status,
        error: status.is_none().then(|| "reset".to_owned()),
        request_id: status.map(|_| format!("req_{number}")),
        behind_key: false,
    }
}

/// How attempts ended of which one may have reached the server.
#[must_use]
pub fn trail(attempts: impl IntoIterator<Item = PastAttempt>) -> Trail {
    Trail { attempts: attempts.into_iter().collect(), sent: true }
}

/// An answer with this body.
#[must_use]
pub fn answer(status: u16, body: impl Into<Bytes>) -> StoredAnswer {
    StoredAnswer {
        status,
        headers: vec![("content-type".to_owned(), b"application/json".to_vec())],
        body: Some(body.into()),
        replayed: false,
    }
}

/// An outcome after one attempt that was sent, without an answer.
#[must_use]
pub fn outcome(to: To) -> Outcome {
    Outcome { to, trail: trail([past(1, None)]), answer: None }
}

/// An outcome after one attempt that was answered.
#[must_use]
pub fn decided(to: To, answer: StoredAnswer) -> Outcome {
    Outcome { to, trail: trail([past(1, Some(answer.status))]), answer: Some(answer) }
}

/// The filter of a claim.
#[must_use]
pub fn due(scopes: &[&str], limit: u32) -> Due {
    Due {
        scopes: scopes.iter().map(|&scope| scope.to_owned()).collect(),
        since: Duration::ZERO,
        limit,
    }
}

/// The filter of a listing.
#[must_use]
pub fn list(
    states: impl IntoIterator<Item = State>,
    scope: Option<&str>,
    after: Option<RowId>,
    limit: u32,
) -> List {
    List { states: states.into_iter().collect(), scope: scope.map(str::to_owned), after, limit }
}
