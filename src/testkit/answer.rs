//! A whole HTTP answer, before a protocol writes it.

use bytes::Bytes;
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION};

/// Status, fields and body. `Content-Length` is the business of the protocol that writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Answer {
    /// A JSON body under `status`.
    pub(super) fn json(status: StatusCode, body: impl Into<Bytes>) -> Self {
        Self { status, headers: HeaderMap::new(), body: body.into() }
            .with(CONTENT_TYPE, HeaderValue::from_static("application/json"))
    }

    /// A problem document (RFC 9457) whose title is `title`.
    pub(super) fn problem(status: StatusCode, title: &str) -> Self {
        let body = serde_json::json!({ "status": status.as_u16(), "title": title });
        Self { status, headers: HeaderMap::new(), body: body.to_string().into() }
            .with(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"))
    }

    /// A problem document titled with the status's own phrase.
    pub(super) fn refusal(status: StatusCode) -> Self {
        Self::problem(status, status.canonical_reason().unwrap_or("Scripted answer"))
    }

    /// The answer to the request that made charge `id`.
    pub(super) fn created(id: &str, received: &[u8]) -> Self {
        let location = format!("/v1/charges/{id}");
        let location = HeaderValue::try_from(location).expect("a charge id is ASCII");
        let received = as_json(received);
        let body = serde_json::json!({ "id": id, "received": received });
        Self::json(StatusCode::CREATED, body.to_string()).with(LOCATION, location)
    }

    /// Sets a field, replacing one of the same name.
    #[must_use]
    pub(super) fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    /// As the server half gives it.
    #[cfg(feature = "server")]
    pub(super) async fn of<B: http_body::Body<Data = Bytes>>(response: http::Response<B>) -> Self {
        use http_body_util::BodyExt as _;
        let (parts, body) = response.into_parts();
        // What was read before has no error; an empty body stands for one that broke off.
        let body =
            body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        Self { status: parts.status, headers: parts.headers, body }
    }

    /// As the server half takes it.
    #[cfg(feature = "server")]
    pub(super) fn response(&self) -> http::Response<Bytes> {
        let mut response = http::Response::new(self.body.clone());
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers.clone();
        response
    }

    /// False where HTTP allows no body at all (RFC 9110 §6.4.1).
    pub(super) fn may_have_body(&self) -> bool {
        !matches!(self.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
    }
}

/// `body` as the JSON that it is, or as a JSON string if it is none.
pub(super) fn as_json(body: &[u8]) -> serde_json::Value {
    serde_json::from_slice(body)
        .unwrap_or_else(|_| String::from_utf8_lossy(body).into_owned().into())
}
