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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_scheme_host_port_and_path_are_shown() {
        let url =
            Url::parse("https://user:pass@api.test:8443/v1/charges?api_key=s3cret#frag").unwrap();
        assert_eq!(Shown(&url).to_string(), "https://api.test:8443/v1/charges");
    }
}
