//! The server: starting, scripting, asking what happened, stopping.

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener as StdListener};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderName;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

#[cfg(feature = "server")]
use super::backing::Keys;
use super::charges::Charge;
use super::fault::Fault;
use super::keys::KeyCarrier;
use super::log::{Event, EventKind, Received};
use super::state::{Options, State, pause};
use super::tls::{Identity, Tls};
use super::wire::Wire;
use super::{http1, http2};

/// How long [`Server::stop`] waits for TLS handshakes that are under way.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(1);

/// A scripted server on a real socket of this machine. See the [module's page](super).
///
/// Dropping it stops it, as [`stop`](Self::stop) does, but without waiting.
#[derive(Debug)]
pub struct Server {
    state: Arc<State>,
    address: SocketAddr,
    scheme: &'static str,
    ca_pem: Option<String>,
}

impl Server {
    /// Starts a server that behaves, on a free port of 127.0.0.1.
    ///
    /// # Errors
    /// If no port can be bound.
    pub async fn start() -> io::Result<Self> {
        Self::builder().start().await
    }

    /// A server with settings.
    pub fn builder() -> ServerBuilder {
        ServerBuilder {
            script: VecDeque::new(),
            port: 0,
            carrier: Ok(KeyCarrier::Header(HeaderName::from_static("idempotency-key"))),
            delay: Duration::ZERO,
            in_progress_retry_after: Some(1),
            tls: None,
            protocol: Protocol::Http1,
            #[cfg(feature = "server")]
            keys: Keys::Own,
        }
    }

    /// The URL of `path`, which starts with a slash.
    pub fn url(&self, path: &str) -> String {
        format!("{}://{}{path}", self.scheme, self.address)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The certificate of the authority to trust, in PEM; `None` unless it was started with
    /// [`Tls::Trusted`].
    pub fn ca_pem(&self) -> Option<&str> {
        self.ca_pem.as_deref()
    }

    /// Adds faults to the end of the script.
    pub fn push(&self, faults: impl IntoIterator<Item = Fault>) {
        self.state.script().extend(faults);
    }

    /// The effects so far, in order.
    pub fn charges(&self) -> Vec<Charge> {
        self.state.store().charges().to_vec()
    }

    /// The requests so far, in order.
    pub fn requests(&self) -> Vec<Received> {
        self.state.log().requests.clone()
    }

    /// Everything that happened so far, in order.
    pub fn log(&self) -> Vec<Event> {
        self.state.log().events.clone()
    }

    /// [`log`](Self::log) as lines that two runs have in common: no times, no ports, and keys by
    /// the order of their appearance.
    pub fn transcript(&self) -> Vec<String> {
        self.state.log().events.iter().map(Event::to_string).collect()
    }

    /// Stops: drops what is being served, closes every connection, and has the port refuse new
    /// ones when it returns. TLS handshakes that are under way have a second to end, so that one
    /// that the client gave up is in the log. What happened can still be asked.
    ///
    /// # Panics
    /// If a task of the server panicked: with the same panic.
    pub async fn stop(&self) {
        let mut handshakes = self.state.handshakes.subscribe();
        tokio::select! {
            _ = handshakes.wait_for(|under_way| *under_way == 0) => {}
            () = pause(HANDSHAKE_LIMIT) => {}
        }
        if let Some(mut tasks) = self.state.take_tasks() {
            tasks.shutdown().await;
        }
        if let Some(panic) = self.state.take_panic() {
            resume_unwind(panic);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.state.take_tasks());
        if let Some(panic) = self.state.take_panic()
            && !std::thread::panicking()
        {
            resume_unwind(panic);
        }
    }
}

/// Settings of a [`Server`].
#[derive(Debug)]
#[must_use = "a builder does nothing until it is started"]
pub struct ServerBuilder {
    script: VecDeque<Fault>,
    port: u16,
    carrier: io::Result<KeyCarrier>,
    delay: Duration,
    in_progress_retry_after: Option<u64>,
    tls: Option<Tls>,
    protocol: Protocol,
    #[cfg(feature = "server")]
    keys: Keys,
}

#[derive(Debug, Clone, Copy)]
enum Protocol {
    Http1,
    Http2,
}

impl ServerBuilder {
    /// The script: one fault for each of the next requests that are not safe. Then it behaves.
    pub fn faults(mut self, faults: impl IntoIterator<Item = Fault>) -> Self {
        self.script.extend(faults);
        self
    }

    /// How long each effect takes, with its key in progress. Default: no time.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// The header that carries the key. Default: `Idempotency-Key`.
    pub fn key_header(mut self, name: &str) -> Self {
        self.carrier = name.parse().map(KeyCarrier::Header).map_err(|_| {
            let text = format!("`{name}` cannot be the name of a header field");
            io::Error::new(io::ErrorKind::InvalidInput, text)
        });
        self
    }

    /// Reads the key from this top-level member of the JSON body, and from no header.
    pub fn key_member(mut self, name: impl Into<String>) -> Self {
        self.carrier = Ok(KeyCarrier::Member(name.into()));
        self
    }

    /// The port. Default: a free one.
    pub fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// The `Retry-After` of a 409 for a key in progress, in seconds; `None` leaves the field away.
    /// Default: 1.
    pub fn in_progress_retry_after(mut self, seconds: impl Into<Option<u64>>) -> Self {
        self.in_progress_retry_after = seconds.into();
        self
    }

    /// Speaks TLS 1.3, and `https` in its URLs.
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Speaks HTTP/2 in place of HTTP/1.1: agreed by ALPN under TLS, taken for granted without
    /// ("prior knowledge").
    pub fn http2(mut self) -> Self {
        self.protocol = Protocol::Http2;
        self
    }

    /// Keeps the contract with [`IdempotencyLayer`](crate::server::IdempotencyLayer), its keys in memory. Then
    /// the fingerprint of a request counts for what its body alone does otherwise, and the key is in a header.
    #[cfg(feature = "server")]
    pub fn layered(mut self) -> Self {
        self.keys = Keys::Memory;
        self
    }

    /// The same with keys and charges in a SQLite file, where the next server finds them.
    #[cfg(all(feature = "server", feature = "sqlite"))]
    pub fn sqlite(mut self, path: impl Into<std::path::PathBuf>) -> Self {
        self.keys = Keys::Sqlite(path.into());
        self
    }

    /// The same with keys and charges in PostgreSQL, in the schema `post_once`.
    #[cfg(all(feature = "server", feature = "postgres"))]
    pub fn postgres(mut self, pool: sqlx::PgPool) -> Self {
        self.keys = Keys::Postgres(pool);
        self
    }

    /// Starts it on 127.0.0.1.
    ///
    /// # Errors
    /// If the port cannot be bound, the name of the key's header is none, no certificate can be made, or
    /// the store of the keys cannot be opened.
    pub async fn start(self) -> io::Result<Server> {
        let options = Options {
            keys: self.carrier?,
            delay: self.delay,
            in_progress_retry_after: self.in_progress_retry_after,
        };
        #[cfg(feature = "server")]
        let shop = self.keys.shop(&options).await?;
        let (scheme, identity) = match self.tls {
            Some(tls) => ("https", Some(Identity::new(tls)?)),
            None => ("http", None),
        };
        let ca_pem = identity.as_ref().and_then(|identity| identity.ca_pem.clone());
        let alpn: &[u8] = match self.protocol {
            Protocol::Http1 => b"http/1.1",
            Protocol::Http2 => b"h2",
        };
        let acceptor = identity.map(|identity| identity.acceptor(alpn)).transpose()?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, self.port)).await?;
        let address = listener.local_addr()?;
        let state = State::new(
            options,
            self.script,
            #[cfg(feature = "server")]
            shop,
        );
        let front = Front { state: Arc::clone(&state), protocol: self.protocol, acceptor };
        state.spawn(front.accept(listener));
        Ok(Server { state, address, scheme, ca_pem })
    }
}

/// A URL of this machine whose port refuses connections: it was bound once, and let go.
///
/// # Errors
/// If no port can be bound.
pub fn refused_url() -> io::Result<String> {
    let listener = StdListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(format!("http://{}/", listener.local_addr()?))
}

/// Takes connections in.
#[derive(Clone)]
struct Front {
    state: Arc<State>,
    protocol: Protocol,
    acceptor: Option<TlsAcceptor>,
}

impl Front {
    async fn accept(self, listener: TcpListener) {
        let mut number = 0;
        loop {
            match listener.accept().await {
                Ok((socket, _)) => {
                    number += 1;
                    self.state.spawn(self.clone().open(socket, number));
                }
                // Out of descriptors, or the client left before it was accepted: both can pass.
                Err(_) => pause(Duration::from_millis(10)).await,
            }
        }
    }

    async fn open(self, socket: TcpStream, number: u64) {
        // Without it, a byte that drips would wait for the acknowledgement of the one before.
        if socket.set_nodelay(true).is_err() {
            return;
        }
        let Some(acceptor) = &self.acceptor else { return self.serve(socket, number).await };
        self.state.handshakes.send_modify(|under_way| *under_way += 1);
        let handshake = acceptor.accept(socket).await;
        if handshake.is_err() {
            self.state.record(number, EventKind::TlsHandshakeFailed);
        }
        self.state.handshakes.send_modify(|under_way| *under_way -= 1);
        if let Ok(stream) = handshake {
            self.serve(stream, number).await;
        }
    }

    async fn serve(self, io: impl Wire, number: u64) {
        match self.protocol {
            Protocol::Http1 => http1::serve(self.state, io, number).await,
            Protocol::Http2 => http2::serve(self.state, io, number).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn with_a_panicking_task() -> Server {
        let server = Server::start().await.unwrap();
        server.state.spawn(async { panic!("a task of the server broke") });
        tokio::task::yield_now().await;
        server
    }

    #[tokio::test]
    #[should_panic(expected = "a task of the server broke")]
    async fn panic_in_a_task_is_raised_by_stop() {
        with_a_panicking_task().await.stop().await;
    }

    #[tokio::test]
    #[should_panic(expected = "a task of the server broke")]
    async fn panic_in_a_task_is_raised_by_drop() {
        drop(with_a_panicking_task().await);
    }

    #[tokio::test]
    #[should_panic(expected = "the test failed first")]
    async fn panic_in_a_task_does_not_hide_the_panic_of_the_test() {
        let _server = with_a_panicking_task().await;
        panic!("the test failed first");
    }
}
