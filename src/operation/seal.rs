//! Giving a request its key, before anything is sent.

use http::header::{CONTENT_LENGTH, Entry};
use reqwest::{Body, Request, Url};

use super::member::{self, Found};
use crate::contract::{Carrier, Contract};
use crate::key::{IdempotencyKey, KeyFormat};
use crate::refusal::Refusal;

/// Refuses a URL that no request can or should go to.
pub(crate) fn check_url(url: &Url) -> Result<(), Refusal> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(Refusal::Url("its scheme is not http or https"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Refusal::Userinfo);
    }
    Ok(())
}

/// The key that the request itself carries, if it does.
///
/// # Errors
/// When it carries two, or one that is not a key.
pub(crate) fn carried_key(
    request: &Request,
    contract: &Contract,
) -> Result<Option<IdempotencyKey>, Refusal> {
    match contract.carrier() {
        Carrier::Header(name) => {
            let mut values = request.headers().get_all(name).iter();
            match (values.next(), values.next()) {
                (None, _) => Ok(None),
                (Some(value), None) => Ok(Some(IdempotencyKey::from_header_value(value)?)),
                (Some(_), Some(_)) => Err(Refusal::TwoKeys),
            }
        }
        Carrier::Member(name) if contract.wants_key(request.method()) => {
            match member::find(body_bytes(request)?, name)? {
                Found::Text(text) => Ok(Some(IdempotencyKey::parse(&text)?)),
                Found::Nothing => Ok(None),
            }
        }
        Carrier::Member(_) => Ok(None),
    }
}

/// A key that the request carries stays as its caller wrote it, and is checked so.
const AS_WRITTEN: KeyFormat = KeyFormat::Hyphenated;

/// Puts the key where the contract wants it, unless the request carries it already.
///
/// # Errors
/// When the contract does not take the key, or the body cannot carry it.
pub(crate) fn place_key(
    request: &mut Request,
    contract: &Contract,
    key: &IdempotencyKey,
) -> Result<(), Refusal> {
    let format = contract.format();
    match contract.carrier() {
        Carrier::Header(name) => match request.headers_mut().entry(name) {
            Entry::Occupied(mut carried) => {
                contract.keys().check(key, AS_WRITTEN)?;
                carried.get_mut().set_sensitive(true);
            }
            Entry::Vacant(vacant) => {
                contract.keys().check(key, format)?;
                vacant.insert(key.to_header_value(format));
            }
        },
        Carrier::Member(name) => {
            let body = body_bytes(request)?;
            if member::find(body, name)? != Found::Nothing {
                return Ok(contract.keys().check(key, AS_WRITTEN)?);
            }
            contract.keys().check(key, format)?;
            let spliced = member::splice(body, name, &key.render(format));
            // Should the caller have declared a length, it is no longer true.
            request.headers_mut().remove(CONTENT_LENGTH);
            *request.body_mut() = Some(Body::from(spliced));
        }
    }
    Ok(())
}

/// The one key of all that were given, if any was.
///
/// # Errors
/// When two differ.
pub(crate) fn one_key(
    given: Option<&IdempotencyKey>,
    carried: Option<IdempotencyKey>,
) -> Result<Option<IdempotencyKey>, Refusal> {
    match (given, carried) {
        (Some(given), Some(carried)) if *given != carried => Err(Refusal::TwoKeys),
        (given, carried) => Ok(carried.or_else(|| given.cloned())),
    }
}

fn body_bytes(request: &Request) -> Result<&[u8], Refusal> {
    let body = request.body().ok_or(Refusal::Member("there is none"))?;
    body.as_bytes().ok_or(Refusal::Member("it is a stream; give it as bytes"))
}
