//! The names of what is traced, all in one place.
//!
//! Span names are our own; the fields follow the OpenTelemetry semantic conventions for HTTP
//! clients where these have one. No field holds a header, a query or a body.

use http::Method;
use reqwest::Url;
use tracing::Span;
use tracing::field::Empty;

use crate::key::IdempotencyKey;
use crate::report::{Attempt, Report};

/// The span of one operation, all its attempts and waits.
pub(crate) fn operation(method: &Method, url: &Url, key: Option<&IdempotencyKey>) -> Span {
    tracing::info_span!(
        "post_once.operation",
        http.request.method = %method,
        server.address = url.host_str(),
        server.port = url.port_or_known_default(),
        url.path = url.path(),
        post_once.key = key.map(tracing::field::display),
        post_once.effect = Empty,
        post_once.exhausted = Empty,
    )
}

/// The span of one attempt.
pub(crate) fn attempt(number: u32) -> Span {
    tracing::info_span!(
        "post_once.attempt",
        http.request.resend_count = number - 1,
        http.response.status_code = Empty,
        error.type = Empty,
        post_once.known = Empty,
    )
}

/// Adds to the span of an attempt how it ended.
pub(crate) fn attempt_ended(span: &Span, attempt: &Attempt) {
    if span.is_disabled() {
        return;
    }
    if let Some(status) = attempt.status() {
        span.record("http.response.status_code", status.as_u16());
    }
    if let Some(kind) = attempt.error() {
        span.record("error.type", kind);
    }
    span.record("post_once.known", attempt.known().as_str());
}

/// Adds to the current span, the operation's, how it ended.
pub(crate) fn operation_ended(report: &Report) {
    let span = Span::current();
    if span.is_disabled() {
        return;
    }
    span.record("post_once.effect", report.effect().as_str());
    if let Some(by) = report.exhausted() {
        span.record("post_once.exhausted", by.as_str());
    }
}
