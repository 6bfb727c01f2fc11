//! A connection's bytes, plain or under TLS, down to the socket.

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// A stream of which a fault can reset the socket.
pub(super) trait Wire: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// The socket below.
    fn socket(&self) -> &TcpStream;

    /// Makes dropping the stream a reset (RST) in place of an orderly end.
    fn reset_on_drop(&self) {
        #[allow(deprecated, reason = "zero never blocks; set_zero_linger asks for a newer tokio")]
        let result = self.socket().set_linger(Some(std::time::Duration::ZERO));
        result.expect("an open socket can be told not to linger");
    }
}

impl Wire for TcpStream {
    fn socket(&self) -> &TcpStream {
        self
    }
}
