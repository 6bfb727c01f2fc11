//! From flags to an operation that is ready to be sent. Whatever cannot be sent is refused here.
//!
//! No text of a refusal holds the value of a header or the body: they may be secret.

use std::io::Read;
use std::sync::Arc;

use http::header::{CONTENT_LENGTH, CONTENT_TYPE, TRANSFER_ENCODING};
use http::{HeaderName, HeaderValue};
use post_once::journal::Journal;
use post_once::observer::Observer;
use post_once::retry::PolicyError;
use post_once::{Client, Contract, Operation, RetryPolicy};
use serde::de::IgnoredAny;

use crate::args::{BodyArgs, KeyArgs, LimitArgs, SendArgs};
use crate::output::with_causes;

/// The most of an answer that is read inside its attempt, in bytes: far above any answer to a
/// write, so that one which is cut short is tried again and not printed by half.
pub(crate) const RESPONSE_LIMIT: usize = 64 * 1024 * 1024;

/// Everything of a command that has been checked before there is a client.
pub(crate) struct Checked {
    policy: RetryPolicy,
    contract: Contract,
    headers: Vec<(HeaderName, HeaderValue)>,
    body: Option<Vec<u8>>,
}

impl SendArgs {
    /// Checks what can be checked, and reads the body.
    ///
    /// # Errors
    /// When something given cannot be sent; says what.
    pub(crate) fn check(&self) -> Result<Checked, String> {
        let policy = self.limits.policy().map_err(|error| error.to_string())?;
        let contract = self.key.contract(&self.url)?;
        let headers = (1..).zip(&self.header).map(|(number, text)| header(number, text));
        let mut headers = headers.collect::<Result<Vec<_>, String>>()?;
        if self.body.json.is_some() && !headers.iter().any(|(name, _)| name == CONTENT_TYPE) {
            headers.push((CONTENT_TYPE, HeaderValue::from_static("application/json")));
        }
        Ok(Checked { policy, contract, headers, body: self.body.read()? })
    }

    /// The client that sends it.
    ///
    /// # Errors
    /// When the HTTP client cannot be set up.
    pub(crate) fn client(
        &self,
        observer: impl Observer,
        journal: Option<Arc<dyn Journal>>,
    ) -> Result<Client, String> {
        let mut client = Client::builder()
            .connect_timeout(self.limits.connect_timeout)
            .response_limit(RESPONSE_LIMIT)
            .observer(observer);
        if let Some(journal) = journal {
            client = client.shared_journal(journal);
        }
        if let Some(lease) = self.journal.lease {
            client = client.lease(lease);
        }
        for name in &self.journal.store_header {
            client = client.store_header(name.clone());
        }
        client.build().map_err(|error| with_causes(&error))
    }

    /// The operation, with its key.
    ///
    /// # Errors
    /// When URL, key, header or body cannot be sent; says what.
    pub(crate) fn operation(&self, client: &Client, checked: Checked) -> Result<Operation, String> {
        let operation = client.once(self.method.clone(), &self.url);
        let mut operation = operation.policy(checked.policy).contract(checked.contract);
        for (name, value) in checked.headers {
            operation = operation.header(name, value);
        }
        if let Some(body) = checked.body {
            operation = operation.body(body);
        }
        if let Some(key) = &self.key.key {
            operation = operation.key(key.clone());
        }
        if let Some(name) = &self.journal.operation {
            operation = operation.operation(name);
        }
        if let Some(scope) = &self.journal.scope {
            operation = operation.scope(scope);
        }
        let operation = operation.prepare().map_err(|error| with_causes(&error))?;
        if self.journal.operation.is_some() && operation.key().is_none() {
            return Err(format!("a {} without a key is not written down: give --key", self.method));
        }
        Ok(operation)
    }
}

impl LimitArgs {
    /// The retry policy.
    pub(crate) fn policy(&self) -> Result<RetryPolicy, PolicyError> {
        let policy = RetryPolicy::builder()
            .max_attempts(self.max_attempts)
            .base_delay(self.base_delay)
            .max_delay(self.max_delay)
            .attempt_timeout(self.attempt_timeout)
            .max_retry_after(self.max_retry_after);
        match self.deadline {
            Some(limit) => policy.deadline(limit).build(),
            None => policy.build(),
        }
    }
}

impl KeyArgs {
    /// The contract with the flags on top.
    fn contract(&self, url: &str) -> Result<Contract, String> {
        let mut contract = self.contract.to_builder();
        if let Some(name) = &self.key_header {
            contract = contract.key_header(name);
        }
        if let Some(format) = self.key_format {
            contract = contract.format(format);
        }
        if let Some(margin) = self.margin {
            contract = contract.margin(margin);
        }
        if let Some(window) = self.window {
            contract = contract.window(window);
            // Also where the contract has another one for this path.
            if let Ok(url) = reqwest::Url::parse(url)
                && url.path().starts_with('/')
            {
                contract = contract.window_for_path(url.path(), window);
            }
        }
        contract.build().map_err(|error| error.to_string())
    }
}

impl BodyArgs {
    /// The bytes of the body, if one is given.
    ///
    /// # Errors
    /// When it is not JSON where it should be, or cannot be read; says which.
    pub(crate) fn read(&self) -> Result<Option<Vec<u8>>, String> {
        match (&self.json, &self.data) {
            (Some(json), _) => match serde_json::from_str::<IgnoredAny>(json) {
                Ok(_) => Ok(Some(json.clone().into_bytes())),
                Err(error) => Err(format!("the text given with --json is not JSON: {error}")),
            },
            (None, Some(data)) => read_data(data).map(Some),
            (None, None) => Ok(None),
        }
    }
}

fn read_data(data: &str) -> Result<Vec<u8>, String> {
    match data.strip_prefix('@') {
        None => Ok(data.into()),
        Some("-") => {
            let mut body = Vec::new();
            match std::io::stdin().lock().read_to_end(&mut body) {
                Ok(_) => Ok(body),
                Err(error) => Err(format!("the body cannot be read from standard input: {error}")),
            }
        }
        Some(path) => std::fs::read(path)
            .map_err(|error| format!("the body cannot be read from the file {path:?}: {error}")),
    }
}

/// A header as it will be sent, marked so that nothing shows its value.
pub(crate) fn header(number: usize, text: &str) -> Result<(HeaderName, HeaderValue), String> {
    let Some((name, value)) = text.split_once(':') else {
        return Err(format!("header {number} has no colon; give it as -H 'Name: value'"));
    };
    let Ok(name) = name.parse::<HeaderName>() else {
        return Err(format!("the name of header {number} is not one; give it as -H 'Name: value'"));
    };
    if name == CONTENT_LENGTH || name == TRANSFER_ENCODING {
        return Err(format!("the header {name} is set from the body; leave it away"));
    }
    let value = secret(&name, value)?;
    Ok((name, value))
}

/// The value of a header, marked so that nothing shows it.
pub(crate) fn secret(name: &HeaderName, value: &str) -> Result<HeaderValue, String> {
    let Ok(mut value) = HeaderValue::from_str(value.trim_matches([' ', '\t'])) else {
        return Err(format!("the value of the header {name} holds what no header may hold"));
    };
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Command};

    #[test]
    fn every_limit_reaches_the_policy() {
        let line = [
            "post-once",
            "send",
            "http://a.test/",
            "--max-attempts=2",
            "--base-delay=3s",
            "--max-delay=4s",
            "--attempt-timeout=5s",
            "--deadline=6s",
            "--max-retry-after=7s",
        ];
        let Command::Send(args) = Cli::parse_from(line).command else { panic!("not send") };
        let seconds = Duration::from_secs;
        let expected = RetryPolicy::builder()
            .max_attempts(2)
            .base_delay(seconds(3))
            .max_delay(seconds(4))
            .attempt_timeout(seconds(5))
            .deadline(seconds(6))
            .max_retry_after(seconds(7))
            .build();
        assert_eq!(args.limits.policy(), expected);
    }

    fn contract_of(flags: &[&str]) -> Result<Contract, String> {
        let line = [&["post-once", "send", "https://a.test/v2/checkout/orders"], flags].concat();
        let Command::Send(args) = Cli::parse_from(line).command else { panic!("not send") };
        args.key.contract(&args.url)
    }

    #[test]
    fn a_window_given_counts_whatever_the_contract_says_of_the_path() {
        let window = |flags: &[&str]| {
            let contract = contract_of(flags).unwrap();
            let window = contract.window_for("/v2/checkout/orders").unwrap();
            (window.length().as_secs(), window.margin().as_secs())
        };
        assert_eq!(window(&["--contract", "paypal"]), (6 * 3600, 300));
        assert_eq!(window(&["--contract", "paypal", "--window", "20s"]), (20, 2));
        assert_eq!(window(&["--window", "20s", "--margin", "5s"]), (20, 5));
        assert_eq!(window(&["--contract", "amazon_pay", "--window", "20s"]), (20, 2));
        assert!(contract_of(&["--window", "5s", "--margin", "5s"]).is_err());
    }

    #[test]
    fn a_header_that_is_refused_shows_nothing_of_its_value() {
        for text in [
            "s3cret",
            "Bearer s3cret: x",
            "X-Token: s3cret\u{7f}",
            "X-Token: s3cret\r\nX: y",
            "Content-Length: 3",
            "transfer-encoding: chunked",
        ] {
            let refused = header(1, text).unwrap_err();
            assert!(!refused.contains("s3cret"), "{refused}");
        }
    }

    #[test]
    fn a_header_is_split_at_its_first_colon_and_marked() {
        let (name, value) = header(1, "X-Time:\t 10:30 ").unwrap();
        assert_eq!((name.as_str(), value.to_str().unwrap()), ("x-time", "10:30"));
        assert!(value.is_sensitive());
        assert_eq!(header(1, "X-Empty:").unwrap().1, "");
    }
}
