//! The claim as an argument of an axum handler.

use axum_core::extract::{FromRequestParts, OptionalFromRequestParts};
use axum_core::response::{IntoResponse, Response};
use http::StatusCode;
use http::request::Parts;

use crate::server::service::Claim;

/// A handler asks for its claim, and there is none: the layer is not around it, or the request has no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the handler asks for its claim, and no idempotency layer has made one")]
pub struct NoClaim;

impl IntoResponse for NoClaim {
    fn into_response(self) -> Response {
        StatusCode::INTERNAL_SERVER_ERROR.into_response()
    }
}

impl<S: Sync> FromRequestParts<S> for Claim {
    type Rejection = NoClaim;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Claim, NoClaim> {
        parts.extensions.get::<Claim>().cloned().ok_or(NoClaim)
    }
}

impl<S: Sync> OptionalFromRequestParts<S> for Claim {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(
        parts: &mut Parts,
        _: &S,
    ) -> Result<Option<Claim>, std::convert::Infallible> {
        Ok(parts.extensions.get::<Claim>().cloned())
    }
}
