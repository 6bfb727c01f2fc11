//! Exit code 2: nothing is sent, and what was refused is said.

use crate::{Ran, run, server, tool};

const LONG_KEY: &str = "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk";

fn assert_refused(ran: &Ran, args: &[&str], says: &str) {
    assert_eq!(ran.code, 2, "{args:?}: {}", ran.stderr);
    assert_eq!(ran.text(), "", "{args:?}");
    assert!(ran.stderr.contains(says), "{args:?}: {}", ran.stderr);
}

#[tokio::test]
async fn what_cannot_be_sent_is_refused_before_sending() {
    let server = server([]).await;
    for (flags, says) in [
        (&["--json", "{\"a\":"][..], "not JSON"),
        (&["--json", "{} {}"], "not JSON"),
        (&["--json", "@file"], "not JSON"),
        (&["--json", "{}", "-d", "x"], "cannot be used with"),
        (&["-d", "@/there/is/no/such/file"], "cannot be read"),
        (&["-d", "@/"], "cannot be read"),
        (&["-H", "Authorization Bearer s3cret"], "header 1 has no colon"),
        (&["-H", "a: b", "-H", "s3cret s3cret: x"], "the name of header 2"),
        (&["-H", "X-Token: s3cret\u{1}"], "the header x-token holds"),
        (&["-H", "Content-Length: 7"], "content-length is set from the body"),
        (&["--key", ""], "--key"),
        (&["--key", "k\u{1}"], "printable ASCII"),
        (&["--key", "a", "-H", "Idempotency-Key: b"], "two idempotency keys"),
        (&["-H", "Idempotency-Key: a", "-H", "Idempotency-Key: a"], "two idempotency keys"),
        (&["--contract", "adyen", "--key", LONG_KEY], "at most 64"),
        (&["--contract", "checkout_com", "--key", "order-42"], "version 4"),
        (&["--contract", "plaid", "--json", "[]"], "cannot carry the key"),
        (&["--contract", "acme"], "possible values: generic, ietf, stripe"),
        (&["--key-header", "Authorization"], "meaning of its own"),
        (&["--key-header", "a b"], "not a header name"),
        (&["--key-format", "raw"], "hyphenated, simple, quoted"),
        (&["--window", "10s", "--margin", "10s"], "window"),
        (&["--window", "0s"], "above zero"),
        (&["--deadline", "0s"], "above zero"),
        (&["--attempt-timeout", "0s"], "above zero"),
        (&["--connect-timeout", "0s"], "above zero"),
        (&["--base-delay", "soon"], "--base-delay"),
        (&["--max-delay", "5"], "--max-delay"),
        (&["--max-retry-after", "-1s"], "-1"),
        (&["--max-attempts", "0"], "--max-attempts"),
        (&["-X", "P ST"], "--method"),
        (&["--output", "xml"], "text, json"),
        (&["--operation", "order-42"], "--journal"),
        (&["--scope", "acct"], "--journal"),
        (&["--lease", "1s"], "--journal"),
        (&["--store-header", "X-A"], "--journal"),
        (&["--journal", ""], "the path of a file"),
        (&["--journal", "/x/y.journal", "--lease", "0s"], "above zero"),
        (&["--journal", "/x/y.journal", "--operation", ""], "--operation"),
        (&["--journal", "/x/y.journal", "--store-header", "a b"], "--store-header"),
    ] {
        let url = server.url("/v1/charges");
        let args = [&["send", &url], flags].concat();
        assert_refused(&run(tool(&args)).await, flags, says);
    }
    assert_eq!(server.transcript(), [""; 0]);
}

#[tokio::test]
async fn a_url_that_cannot_be_used_is_refused_without_being_shown() {
    for (url, says) in [
        ("", "does not parse"),
        ("/v1/charges?s3cret", "does not parse"),
        ("ftp://127.0.0.1/s3cret", "http or https"),
        ("mailto:s3cret", "http or https"),
        ("http://user:s3cret@127.0.0.1/", "user name or password"),
    ] {
        assert_refused(&run(tool(["send", url, "--window", "1h"])).await, &[url], says);
    }
}

#[tokio::test]
async fn a_command_line_that_is_none_is_refused() {
    for (args, says) in [
        (&[][..], "Usage"),
        (&["sned"], "sned"),
        (&["send"], "<URL>"),
        (&["pending"], "--journal"),
        (&["pending", "--journal", "x", "--state", "lost"], "pending, parked, unknown"),
        (&["show", "--journal", "x"], "--operation"),
        (&["show", "--journal", "x", "k", "--operation", "n"], "cannot be used with"),
        (&["retry", "--journal", "x"], "<KEY>"),
        (&["abandon", "--journal", "x"], "<KEY>"),
        (&["purge", "--journal", "x"], "--older-than"),
        (&["resume", "--journal", "x", "--once", "--watch"], "cannot be used with"),
        (&["resume", "--journal", "x", "--origin", "s3cret"], "http or https"),
        (&["resume", "--journal", "x", "--origin", "ftp://s3cret/"], "http or https"),
        (&["resume", "--journal", "x", "--origin", "http://a:s3cret@b/"], "user name or password"),
        (&["resume", "--journal", "x", "--concurrency", "0"], "--concurrency"),
        (&["resume", "--journal", "x", "-H", "Bearer s3cret"], "header 1 has no colon"),
        (&["contracts", "--output", "xml"], "text, json"),
        (&["serve", "--fault", "explode"], "is no fault"),
        (&["serve", "--fault", "429:ra=x"], "is no fault"),
        (&["serve", "--port", "70000"], "--port"),
        (&["serve", "--delay", "x"], "--delay"),
        (&["completions", "csh"], "bash"),
    ] {
        assert_refused(&run(tool(args)).await, args, says);
    }
}
