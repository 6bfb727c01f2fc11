//! URLs as they may be shown: without userinfo, query and fragment, where secrets live.

use std::fmt;

use reqwest::Url;

/// Scheme, host, port and path of a URL.
pub(crate) struct Shown<'a>(pub(crate) &'a Url);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.0.scheme(), self.0.host_str().unwrap_or_default())?;
        if let Some(port) = self.0.port() {
            write!(f, ":{port}")?;
        }
        f.write_str(self.0.path())
    }
}

/// A text in which the URL is as it may be shown, and its query and fragment stand nowhere else.
pub(crate) fn without_secrets(text: &str, url: &Url) -> String {
    let text = text.replace(url.as_str(), &Shown(url).to_string());
    let parts = [url.query(), url.fragment()].into_iter().flatten().filter(|part| !part.is_empty());
    parts.fold(text, |text, part| text.replace(part, "…"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_scheme_host_port_and_path_are_shown() {
        let url =
            Url::parse("https://user:pass@api.test:8443/v1/charges?api_key=s3cret#frag").unwrap();
        assert_eq!(Shown(&url).to_string(), "https://api.test:8443/v1/charges");
    }

    #[test]
    fn query_and_fragment_are_hidden_wherever_they_stand() {
        for (url, text, expected) in [
            ("http://a.test/x?k=1#f2", "at http://a.test/x?k=1#f2!", "at http://a.test/x!"),
            ("http://a.test/x?k=1#f2", "at http://a.test/x?k=1!", "at http://a.test/x?…!"),
            ("http://a.test/x?k=1#f2", "query k=1, fragment f2", "query …, fragment …"),
            ("http://a.test/x?#", "at http://a.test/x?#!", "at http://a.test/x!"),
            ("http://a.test/x?", "reset by peer", "reset by peer"),
            ("http://a.test/x", "at http://a.test/x!", "at http://a.test/x!"),
        ] {
            assert_eq!(without_secrets(text, &Url::parse(url).unwrap()), expected, "{text}");
        }
    }
}
