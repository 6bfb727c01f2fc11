//! What is traced while a test listens.
//!
//! One subscriber for the whole process, which sorts by threads: each test has one, and all that it starts
//! runs there. With a subscriber for each thread lines would get lost: as long as there is only one, what
//! it wants of a span is decided, for all threads and for good, by the thread that comes by that span first,
//! and that may be one of a test that wants nothing.

use std::cell::RefCell;
use std::io;
use std::sync::{Arc, Mutex, Once};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::FmtSpan;

thread_local! {
    static LISTENING: RefCell<Option<Lines>> = const { RefCell::new(None) };
}

/// Lines of text. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    pub(crate) fn add(&self, text: impl AsRef<str>) {
        let mut lines = self.0.lock().unwrap();
        lines.extend_from_slice(text.as_ref().as_bytes());
        lines.push(b'\n');
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }

    /// Takes in what is traced on this thread for as long as the guard lives.
    pub(crate) fn listen(&self) -> Listening {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            let subscriber = tracing_subscriber::fmt()
                .with_env_filter(EnvFilter::new("post_once=trace"))
                .with_span_events(FmtSpan::FULL)
                .with_ansi(false)
                .with_writer(|| Writer)
                .finish();
            tracing::subscriber::set_global_default(subscriber).unwrap();
            // A thread that came by a span in the middle of this may still have found nobody.
            tracing::callsite::rebuild_interest_cache();
        });
        LISTENING.with_borrow_mut(|listening| *listening = Some(self.clone()));
        Listening
    }
}

/// Ends the listening when it is dropped.
#[must_use]
pub(crate) struct Listening;

impl Drop for Listening {
    fn drop(&mut self) {
        LISTENING.with_borrow_mut(|listening| *listening = None);
    }
}

/// Writes to the lines of its thread, if somebody listens there.
struct Writer;

impl io::Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LISTENING.with_borrow(|listening| {
            if let Some(Lines(lines)) = listening {
                lines.lock().unwrap().extend_from_slice(bytes);
            }
        });
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
