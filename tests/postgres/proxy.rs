//! A way to the server on which answers can be lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Forwards connections, until it is told to lose one.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    lose: Arc<AtomicBool>,
}

impl Proxy {
    /// To a server at this address.
    pub(crate) async fn to(host: &str, port: u16) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Proxy { port: listener.local_addr().unwrap().port(), lose: Arc::default() };
        let (host, lose) = (host.to_owned(), Arc::clone(&proxy.lose));
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect((host.as_str(), port)).await.unwrap();
                tokio::spawn(forward(client, server, Arc::clone(&lose)));
            }
        });
        proxy
    }

    /// Loses the next answer, and its connection with it.
    pub(crate) fn lose_the_next_answer(&self) {
        assert!(!self.lose.swap(true, Ordering::SeqCst), "the last one was lost");
    }

    pub(crate) fn has_lost(&self) -> bool {
        !self.lose.load(Ordering::SeqCst)
    }
}

async fn forward(client: TcpStream, server: TcpStream, lose: Arc<AtomicBool>) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let asking = async { tokio::io::copy(&mut from_client, &mut to_server).await.map(drop) };
    let answering = async {
        let mut buffer = vec![0; 1 << 16];
        loop {
            let length = from_server.read(&mut buffer).await?;
            if length == 0 || lose.swap(false, Ordering::SeqCst) {
                return Ok(());
            }
            to_client.write_all(&buffer[..length]).await?;
        }
    };
    // Both ends are closed when one side is done.
    let _: std::io::Result<()> = tokio::select! { done = asking => done, done = answering => done };
}
