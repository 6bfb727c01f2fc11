//! A way to the server on which answers can be lost.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Forwards connections, until it is told to lose one.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    cut: Arc<Mutex<Option<Cut>>>,
}

/// Where a connection is lost.
#[derive(Clone, Copy)]
enum Cut {
    NextAnswer,
    /// What asks with these bytes gets no answer.
    #[cfg_attr(
        not(feature = "server"),
        expect(dead_code, reason = "no test of the journal needs it")
    )]
    AnswerTo(&'static str),
    /// And this does not even reach the server.
    #[cfg_attr(
        not(feature = "server"),
        expect(dead_code, reason = "no test of the journal needs it")
    )]
    Before(&'static str),
}

impl Proxy {
    /// To a server at this address.
    pub(crate) async fn to(host: &str, port: u16) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Proxy { port: listener.local_addr().unwrap().port(), cut: Arc::default() };
        let (host, cut) = (host.to_owned(), Arc::clone(&proxy.cut));
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect((host.as_str(), port)).await.unwrap();
                tokio::spawn(forward(client, server, Arc::clone(&cut)));
            }
        });
        proxy
    }

    /// Loses the next answer, and its connection with it.
    pub(crate) fn lose_the_next_answer(&self) {
        self.cut(Cut::NextAnswer);
    }

    /// Loses the answer to what asks so.
    #[cfg(feature = "server")]
    pub(crate) fn lose_the_answer_to(&self, asked: &'static str) {
        self.cut(Cut::AnswerTo(asked));
    }

    /// Loses the connection of what asks so, before the server hears of it.
    #[cfg(feature = "server")]
    pub(crate) fn cut_before(&self, asked: &'static str) {
        self.cut(Cut::Before(asked));
    }

    fn cut(&self, cut: Cut) {
        assert!(self.cut.lock().unwrap().replace(cut).is_none(), "the last one was lost");
    }

    pub(crate) fn has_lost(&self) -> bool {
        self.cut.lock().unwrap().is_none()
    }
}

async fn forward(client: TcpStream, server: TcpStream, cut: Arc<Mutex<Option<Cut>>>) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let is_lost = AtomicBool::new(false);
    // It happens once.
    let comes_to = |what: &dyn Fn(Cut) -> bool| {
        let mut cut = cut.lock().unwrap();
        cut.take_if(|cut| what(*cut)).is_some()
    };
    let asking = async {
        let mut buffer = vec![0; 1 << 16];
        loop {
            let length = from_client.read(&mut buffer).await?;
            let asked = String::from_utf8_lossy(&buffer[..length]);
            if length == 0 || comes_to(&|cut| matches!(cut, Cut::Before(at) if asked.contains(at)))
            {
                return Ok(());
            }
            if comes_to(&|cut| matches!(cut, Cut::AnswerTo(to) if asked.contains(to))) {
                is_lost.store(true, Ordering::SeqCst);
            }
            to_server.write_all(&buffer[..length]).await?;
        }
    };
    let answering = async {
        let mut buffer = vec![0; 1 << 16];
        loop {
            let length = from_server.read(&mut buffer).await?;
            let is_next = || comes_to(&|cut| matches!(cut, Cut::NextAnswer));
            if length == 0 || is_lost.load(Ordering::SeqCst) || is_next() {
                return Ok(());
            }
            to_client.write_all(&buffer[..length]).await?;
        }
    };
    // Both ends are closed when one side is done.
    let _: std::io::Result<()> = tokio::select! { done = asking => done, done = answering => done };
}
