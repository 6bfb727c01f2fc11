//! The requests of the trials: each on a connection of its own, none repeated, no redirect followed.

use std::time::Duration;

use http::header::HOST;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use post_once::clock::{Clock, SystemClock};
use post_once::contract::Carrier;
use post_once::retry::Known;
use post_once::{Contract, IdempotencyKey};
use reqwest::Url;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::body;
use super::verdict::{Answer, Sent};

/// What all requests of a check have in common.
pub(super) struct Wire {
    pub(super) client: reqwest::Client,
    pub(super) url: Url,
    pub(super) method: Method,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
    pub(super) contract: Contract,
    pub(super) count: Option<Url>,
    pub(super) timeout: Duration,
}

/// One request: what differs from trial to trial.
#[derive(Clone, Debug)]
pub(super) struct Request {
    url: Url,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Wire {
    /// A key of its own, as the contract writes it.
    pub(super) fn fresh_key(&self) -> String {
        let key = IdempotencyKey::mint().expect("the operating system has random bytes");
        key.render(self.contract.format()).into_owned()
    }

    /// The request given, under this key.
    pub(super) fn request(&self, key: Option<&str>) -> Request {
        self.request_of(&self.url, &self.body, key)
    }

    pub(super) fn request_of(&self, url: &Url, body: &[u8], key: Option<&str>) -> Request {
        let mut request =
            Request { url: url.clone(), headers: self.headers.clone(), body: body.to_vec() };
        let Some(key) = key else { return request };
        match self.contract.carrier() {
            Carrier::Header(name) => {
                let value = HeaderValue::from_str(key).expect("the keys of trials are ASCII");
                request.headers.insert(name, value);
            }
            Carrier::Member(name) => request.body = body::with_member(body, name, key),
            other => unreachable!("no contract has its key in {other:?}"),
        }
        request
    }

    pub(super) async fn send(&self, request: &Request) -> Sent {
        self.try_send(request).await.map_err(|error| why(&error).to_owned())
    }

    /// The same, with the error as it is.
    pub(super) async fn try_send(&self, request: &Request) -> Result<Answer, reqwest::Error> {
        let sent = self.client.request(self.method.clone(), request.url.clone());
        let sent = sent.headers(request.headers.clone()).body(request.body.clone());
        let mut response = sent.send().await?;
        let (status, headers) = (response.status(), std::mem::take(response.headers_mut()));
        let body = response.bytes().await?.to_vec();
        Ok(self.read(status, headers, body))
    }

    /// A marker or a signal counts whoever is known to use it: the contract may be the wrong one.
    fn read(&self, status: StatusCode, headers: HeaderMap, body: Vec<u8>) -> Answer {
        let means = |known: Known| {
            let reads = |contract: &Contract| contract.read(status, &headers, &body) == known;
            reads(&self.contract) || Contract::presets().any(|preset| reads(&preset))
        };
        let (marked, in_progress) = (means(Known::Replayed), means(Known::InProgress));
        Answer { status: status.as_u16(), headers, body, marked, in_progress }
    }

    /// Sends until the answer is not one to wait for, a few times.
    pub(super) async fn send_patiently(&self, request: &Request) -> Sent {
        const MOST: u32 = 8;
        let mut number = 1;
        loop {
            let sent = self.send(request).await;
            let Ok(answer) = &sent else { return sent };
            let waits = answer.in_progress || matches!(answer.status, 425 | 429 | 502..=504);
            if !waits || number == MOST {
                return sent;
            }
            let seconds = answer.headers.get("retry-after").and_then(|value| value.to_str().ok());
            let seconds = seconds.and_then(|seconds| seconds.parse().ok());
            let asked = Duration::from_secs(seconds.unwrap_or(0));
            pause(asked.clamp(Duration::from_millis(200), self.timeout)).await;
            number += 1;
        }
    }

    /// Writes the whole request and leaves before the answer. Plain http only.
    pub(super) async fn send_and_leave(&self, request: &Request) -> Result<(), String> {
        let host = self.url.host_str().expect("the URL was checked to have a host");
        let port = self.url.port_or_known_default().expect("http has a default port");
        // An IPv6 address stands in brackets in a URL, and without them in an address.
        let address = (host.trim_matches(['[', ']']), port);
        let work = async {
            let mut stream = TcpStream::connect(address).await?;
            stream.write_all(&self.bytes(request)).await?;
            stream.flush().await?;
            std::io::Result::Ok(())
        };
        tokio::select! {
            done = work => done.map_err(|error| error.to_string()),
            () = SystemClock.sleep(self.timeout) => Err("it took too long".to_owned()),
        }
    }

    fn bytes(&self, request: &Request) -> Vec<u8> {
        let (url, path) = (&request.url, request.url.path());
        let query = url.query().map_or(String::new(), |query| format!("?{query}"));
        let mut bytes = format!("{} {path}{query} HTTP/1.1\r\n", self.method).into_bytes();
        if !request.headers.contains_key(HOST) {
            let port = url.port().map_or(String::new(), |port| format!(":{port}"));
            let host = url.host_str().unwrap_or_default();
            bytes.extend(format!("host: {host}{port}\r\n").bytes());
        }
        for (name, value) in &request.headers {
            bytes.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
        }
        bytes.extend(format!("content-length: {}\r\n\r\n", request.body.len()).bytes());
        bytes.extend(&request.body);
        bytes
    }

    /// How many effects there are so far; `None` where they are not counted.
    pub(super) async fn count(&self) -> Result<Option<u64>, CountError> {
        let Some(url) = &self.count else { return Ok(None) };
        let mut request = self.client.get(url.clone());
        if url.origin() == self.url.origin() {
            request = request.headers(self.headers.clone());
        }
        let response = request.send().await.map_err(CountError::Http)?;
        let body = response.bytes().await.map_err(CountError::Http)?;
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
        body["count"].as_u64().map(Some).ok_or(CountError::NoCount)
    }
}

/// Why the effects cannot be counted.
#[derive(Debug)]
pub(super) enum CountError {
    Http(reqwest::Error),
    NoCount,
}

/// What a failed request says without its URL.
pub(super) fn why(error: &reqwest::Error) -> &'static str {
    match error {
        error if error.is_connect() => "no connection",
        error if error.is_timeout() => "it took too long",
        _ => "the connection or the answer was lost",
    }
}

pub(super) async fn pause(time: Duration) {
    SystemClock.sleep(time).await;
}

/// The time of the first send, for the contracts that want it beside the key.
pub(super) fn first_sent(contract: &Contract) -> Option<(HeaderName, HeaderValue)> {
    let name = contract.first_sent_header()?.clone();
    let now = httpdate::fmt_http_date(SystemClock.wall());
    Some((name, HeaderValue::from_str(&now).expect("a date is ASCII")))
}
