//! A server that answers bytes of the test's choosing, right or wrong.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Answers each connection's first request with the next of its answers, then closes, or holds the
/// connection open for as long as it lives.
pub(crate) struct RawServer {
    url: String,
    requests: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

/// What follows an answer.
enum End {
    Close,
    Hold,
}

impl RawServer {
    pub(crate) async fn start(answers: impl IntoIterator<Item = Vec<u8>>) -> RawServer {
        RawServer::serve(answers, End::Close).await
    }

    pub(crate) async fn start_holding(answers: impl IntoIterator<Item = Vec<u8>>) -> RawServer {
        RawServer::serve(answers, End::Hold).await
    }

    async fn serve(answers: impl IntoIterator<Item = Vec<u8>>, end: End) -> RawServer {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1/charges", listener.local_addr().unwrap());
        let requests = Arc::new(AtomicUsize::new(0));
        let mut answers: Vec<_> = answers.into_iter().collect();
        answers.reverse();
        let counter = Arc::clone(&requests);
        let task = tokio::spawn(async move {
            let mut held = Vec::new();
            while let Some(answer) = answers.pop() {
                let (mut socket, _) = listener.accept().await.unwrap();
                let mut request = Vec::new();
                while !request.ends_with(super::BODY.as_bytes()) {
                    assert_ne!(socket.read_buf(&mut request).await.unwrap(), 0, "a cut request");
                }
                counter.fetch_add(1, Ordering::Relaxed);
                socket.write_all(&answer).await.unwrap();
                match end {
                    End::Close => socket.shutdown().await.unwrap(),
                    End::Hold => held.push(socket),
                }
            }
            std::future::pending::<()>().await;
        });
        RawServer { url, requests, task }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }
}

impl Drop for RawServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}
