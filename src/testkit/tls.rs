//! Certificates made on the spot, and the server's side of TLS.

use std::io;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::server::TlsStream;

use super::wire::Wire;

/// Which certificate a server shows. Both name `localhost` and `127.0.0.1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Tls {
    /// One by an authority made for this server alone; [`Server::ca_pem`] gives that authority, for
    /// the client to trust.
    ///
    /// [`Server::ca_pem`]: super::Server::ca_pem
    Trusted,
    /// One that signs itself, and that no client can have reason to trust.
    Untrusted,
}

/// A certificate and what goes with it.
pub(super) struct Identity {
    /// The authority; `None` if there is none to trust.
    pub(super) ca_pem: Option<String>,
    certificate: CertificateDer<'static>,
    key: KeyPair,
}

impl Identity {
    pub(super) fn new(tls: Tls) -> io::Result<Self> {
        Self::generate(tls).map_err(io::Error::other)
    }

    fn generate(tls: Tls) -> Result<Self, rcgen::Error> {
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let params = CertificateParams::new(names)?;
        let key = KeyPair::generate()?;
        match tls {
            Tls::Untrusted => {
                let certificate = params.self_signed(&key)?.der().clone();
                Ok(Self { ca_pem: None, certificate, key })
            }
            Tls::Trusted => {
                let mut ca = CertificateParams::new([])?;
                ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
                ca.distinguished_name.push(DnType::CommonName, "post-once testkit");
                let ca_key = KeyPair::generate()?;
                let ca_pem = pem(ca.self_signed(&ca_key)?.der());
                let issuer = Issuer::new(ca, ca_key);
                let certificate = params.signed_by(&key, &issuer)?.der().clone();
                Ok(Self { ca_pem: Some(ca_pem), certificate, key })
            }
        }
    }

    /// An acceptor that speaks `protocol` only (its ALPN name).
    pub(super) fn acceptor(self, protocol: &[u8]) -> io::Result<TlsAcceptor> {
        let key = PrivateKeyDer::try_from(self.key.serialize_der()).map_err(io::Error::other)?;
        let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_no_client_auth()
            .with_single_cert(vec![self.certificate], key)
            .map_err(io::Error::other)?;
        config.alpn_protocols = vec![protocol.to_vec()];
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

impl Wire for TlsStream<TcpStream> {
    fn socket(&self) -> &TcpStream {
        self.get_ref().0
    }
}

/// RFC 7468: base64 in lines of 64 characters.
fn pem(der: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::from("-----BEGIN CERTIFICATE-----\n");
    for line in der.chunks(48) {
        for group in line.chunks(3) {
            let byte = |index: usize| u32::from(group.get(index).copied().unwrap_or(0));
            let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
            for position in 0..4 {
                let index = bits >> (18 - 6 * position) & 63;
                let padding = position > group.len();
                text.push(if padding { '=' } else { char::from(ALPHABET[index as usize]) });
            }
        }
        text.push('\n');
    }
    text.push_str("-----END CERTIFICATE-----\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pem_pads_and_breaks_lines() {
        for (der, expected) in [
            (&b"M"[..], "TQ==\n"),
            (b"Ma", "TWE=\n"),
            (b"Man", "TWFu\n"),
            (&[0xff; 49], &format!("{}\n/w==\n", "/".repeat(64))),
        ] {
            let text = pem(der);
            let body = text.strip_prefix("-----BEGIN CERTIFICATE-----\n").unwrap();
            assert_eq!(body.strip_suffix("-----END CERTIFICATE-----\n"), Some(expected));
        }
    }
}
