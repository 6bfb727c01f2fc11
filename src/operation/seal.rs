//! Giving a request its key, before anything is sent.

use http::header::{CONTENT_LENGTH, Entry, HeaderName};
use reqwest::{Body, Request, Url};

use super::member::{self, Found};
use crate::contract::{Carrier, Contract};
use crate::key::IdempotencyKey;
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

/// Puts the key where the contract wants it. A key that the request carries already stays as the
/// caller wrote it.
///
/// # Errors
/// When the contract does not take the key, or the body cannot carry it.
pub(crate) fn place_key(
    request: &mut Request,
    contract: &Contract,
    key: &IdempotencyKey,
) -> Result<(), Refusal> {
    contract.keys().check(key, contract.format())?;
    match contract.carrier() {
        Carrier::Header(name) => place_in_header(request, contract, name, key),
        Carrier::Member(name) => {
            let body = body_bytes(request)?;
            if member::find(body, name)? == Found::Nothing {
                let rendered = key.render(contract.format());
                let spliced = member::splice(body, name, &rendered);
                // Should the caller have declared a length, it is no longer true.
                request.headers_mut().remove(CONTENT_LENGTH);
                *request.body_mut() = Some(Body::from(spliced));
            }
            Ok(())
        }
    }
}

fn place_in_header(
    request: &mut Request,
    contract: &Contract,
    name: &HeaderName,
    key: &IdempotencyKey,
) -> Result<(), Refusal> {
    match request.headers_mut().entry(name) {
        Entry::Occupied(mut carried) => carried.get_mut().set_sensitive(true),
        Entry::Vacant(vacant) => {
            vacant.insert(key.to_header_value(contract.format()));
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
