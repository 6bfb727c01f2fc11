//! Keys that are two, too long, of a foreign alphabet, or where no key can be.

use http::Method;
use post_once::client::OperationBuilder;
use post_once::middleware::RequestBuilderExt;
use post_once::testkit::{ManualClock, Server};
use post_once::{Client, Contract, Effect, Error, Idempotency, IdempotencyKey};
use reqwest::Body;
use reqwest_middleware::ClientBuilder;

use crate::harness::{BODY, client, http};

const UUID: &str = "0f0e0d0c-0b0a-4908-8706-050403020100";

fn key(text: &str) -> IdempotencyKey {
    IdempotencyKey::parse(text).unwrap()
}

async fn refused(builder: OperationBuilder<'_>, says: &str) {
    let error = builder.send().await.unwrap_err();
    let text = error.to_string();
    assert!(error.is_refused(), "{text}");
    assert_eq!(error.effect(), Effect::NotSent);
    assert!(text.contains(says), "{says}: {text}");
}

fn post<'a>(client: &'a Client, server: &Server) -> OperationBuilder<'a> {
    client.once(Method::POST, server.url("/v1/charges")).body(BODY)
}

// O-02
#[tokio::test]
async fn two_keys_are_refused_wherever_they_come_from() {
    let server = Server::start().await.unwrap();
    let client = client(&ManualClock::new());
    let with = |name| post(&client, &server).header(name, "a");
    for second in ["a", "b"] {
        refused(with("idempotency-key").header("Idempotency-Key", second), "two").await;
    }
    refused(with("IDEMPOTENCY-KEY").key(key("b")), "two idempotency keys").await;

    let stack = ClientBuilder::new(http().build().unwrap()).with(Idempotency::new()).build();
    for (extension, second) in [(Some("b"), None), (None, Some("b")), (Some("a"), Some("a"))] {
        let mut request = stack.post(server.url("/")).body(BODY).header("Idempotency-Key", "a");
        if let Some(extension) = extension {
            request = request.idempotency_key(key(extension));
        }
        if let Some(second) = second {
            request = request.header("idempotency-key", second);
        }
        let error = request.send().await.unwrap_err();
        let error = Error::find(&error).unwrap();
        assert!(error.is_refused() && error.to_string().contains("two idempotency keys"));
    }
    assert!(server.requests().is_empty());
}

// O-02
#[tokio::test]
async fn one_key_given_twice_over_is_one_key() {
    let server = Server::start().await.unwrap();
    let client = client(&ManualClock::new());
    for written in ["a", "\"a\""] {
        let builder = post(&client, &server).header("IDEMPOTENCY-key", written).key(key("a"));
        builder.send().await.unwrap();
    }
    let values: Vec<_> = server
        .requests()
        .iter()
        .map(|request| {
            let values = request.headers().get_all("idempotency-key").iter();
            values.map(|value| value.to_str().unwrap().to_owned()).collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(values, [["a"], ["\"a\""]], "as the caller wrote it");
    assert_eq!(server.charges().len(), 1);
}

#[tokio::test]
async fn key_that_the_server_would_refuse_is_refused_before_sending() {
    let server = Server::start().await.unwrap();
    let client = client(&ManualClock::new());
    let derived = key(UUID).derive("capture");
    for (contract, key, says) in [
        (Contract::adyen(), key(&"x".repeat(65)), "at most 64"),
        (Contract::amazon_pay(), key(&"x".repeat(33)), "at most 32"),
        (Contract::amazon_pay(), key("order.42"), "letters, digits"),
        (Contract::checkout_com(), key("order-42"), "version 4"),
        (Contract::checkout_com(), derived, "version 4"),
        (Contract::dwolla(), key("order-42"), "a UUID"),
    ] {
        let header = match contract.carrier() {
            post_once::contract::Carrier::Header(name) => name.clone(),
            other => panic!("{other:?}"),
        };
        let name = contract.name().to_owned();
        let builder = post(&client, &server).contract(contract.clone()).key(key.clone());
        refused(builder, says).await;
        let builder = post(&client, &server).contract(contract).header(header, key.to_string());
        refused(builder, says).await;
        assert!(server.requests().is_empty(), "{name}");
    }
}

/// What counts is what would go out: a key in the header stays as the caller wrote it.
#[tokio::test]
async fn key_in_the_header_is_checked_as_it_is_written() {
    let server = Server::start().await.unwrap();
    let client = client(&ManualClock::new());
    let header = "x-amz-pay-idempotency-key";
    let with = || post(&client, &server).contract(Contract::amazon_pay());
    refused(with().header(header, UUID), "at most 32").await;
    assert!(server.requests().is_empty());

    let simple = UUID.replace('-', "");
    with().header(header, &simple).send().await.unwrap();
    with().key(key(UUID)).send().await.unwrap();
    for request in server.requests() {
        assert_eq!(request.headers()[header], simple);
    }
}

#[tokio::test]
async fn header_that_is_no_key_is_refused() {
    let server = Server::start().await.unwrap();
    let client = client(&ManualClock::new());
    let long = "x".repeat(256);
    for (value, says) in [
        (&b""[..], "is empty"),
        (b" a", "no space"),
        (b"\"a", "quote"),
        (b"\"\"", "is empty"),
        (b"\xe9", "printable ASCII"),
        (b"a\tb", "printable ASCII"),
        (long.as_bytes(), "at most 255"),
    ] {
        refused(post(&client, &server).header("idempotency-key", value), says).await;
    }
    assert!(server.requests().is_empty());
}

fn member() -> Contract {
    Contract::builder("acme").key_member("idempotency_key").build().unwrap()
}

#[tokio::test]
async fn member_that_is_there_is_the_callers_key_and_the_body_stays_as_it_is() {
    let server = Server::builder().key_member("idempotency_key").start().await.unwrap();
    let client = client(&ManualClock::new());
    let body = "{ \"amount\":1.50,\n\"idempotency_key\": \"order\\u002d42\" }";
    for given in [None, Some(key("order-42"))] {
        let mut builder = post(&client, &server).contract(member()).body(body);
        if let Some(key) = given {
            builder = builder.key(key);
        }
        let mut operation = builder.prepare().unwrap();
        assert_eq!(operation.key(), Some(&key("order-42")));
        client.send(&mut operation).await.unwrap();
    }
    assert!(server.requests().iter().all(|request| request.body() == body));
    assert_eq!(server.charges().len(), 1);
}

#[tokio::test]
async fn member_that_is_no_key_or_a_second_one_is_refused() {
    let server = Server::start().await.unwrap();
    let client = client(&ManualClock::new());
    for (body, given, says) in [
        (r#"{"idempotency_key":"a"}"#, Some("b"), "two idempotency keys"),
        (r#"{"idempotency_key":"a","idempotency_key":"a"}"#, None, "two idempotency keys"),
        (r#"{"idempotency_key":7}"#, None, "its key is not a text"),
        (r#"{"idempotency_key":null}"#, None, "its key is not a text"),
        (r#"{"idempotency_key":7}"#, Some("b"), "its key is not a text"),
        (r#"{"idempotency_key":""}"#, None, "is empty"),
        (r#"{"idempotency_key":"a\n"}"#, None, "printable ASCII"),
        ("[]", None, "not a JSON object"),
        ("\"text\"", None, "not a JSON object"),
        ("", None, "not a JSON object"),
        ("{", None, "not a JSON object"),
        ("{} {}", None, "not a JSON object"),
        ("amount=1", None, "not a JSON object"),
    ] {
        let mut builder = post(&client, &server).contract(member()).body(body);
        if let Some(given) = given {
            builder = builder.key(key(given));
        }
        refused(builder, says).await;
    }
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn member_that_the_server_would_refuse_is_refused_before_sending() {
    let server = Server::start().await.unwrap();
    let client = client(&ManualClock::new());
    let long = "x".repeat(51);
    let plaid = || post(&client, &server).contract(Contract::plaid());
    refused(plaid().body(format!(r#"{{"idempotency_key":"{long}"}}"#)), "at most 50").await;
    refused(plaid().key(key(&long)), "at most 50").await;
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn member_in_a_body_that_is_not_there_or_cannot_be_read_is_refused() {
    let server = Server::start().await.unwrap();
    let client = client(&ManualClock::new());
    let bare = || client.once(Method::POST, server.url("/")).contract(member());
    refused(bare(), "there is none").await;
    let stream = Body::wrap(Body::from(BODY));
    refused(bare().body(stream), "it is a stream").await;
    assert!(server.requests().is_empty());

    // A method that takes no key needs no body for one.
    let get = client.once(Method::GET, server.url("/")).contract(member());
    assert_eq!(get.send().await.unwrap().status(), 200);
}

/// A key that its contract could not carry makes the contract unusable, not the request.
#[test]
fn carrier_that_cannot_carry_is_refused_when_the_contract_is_built() {
    for name in ["", "a b", "authorization", "Content-Length", "cookie", "host"] {
        assert!(Contract::builder("acme").key_header(name).build().is_err(), "{name:?}");
    }
    assert!(Contract::builder("acme").key_member("").build().is_err());
    assert!(Contract::builder("").build().is_err());
}
