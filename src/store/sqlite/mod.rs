//! One SQLite file: a thread that writes in groups, one that reads, and one that checkpoints.
//!
//! The rule:
//!
//! 1. A write is a closure that is run inside a transaction which took the write lock at its start. Up
//!    to [`MOST_AT_ONCE`] queued ones share a transaction, and so a flush to the disk; each is answered
//!    after the commit. One that fails takes nothing of the others with it.
//! 2. `synchronous` is `FULL` (and `fullfsync` where the platform has it): what was answered is on disk. Of a
//!    write that may wait for the flush of a later one only this is known: the end of the process does not
//!    undo it.
//! 3. Checkpoints run on a connection of their own, when the write-ahead log has grown to
//!    [`LOG_BYTES`], so that no commit waits for one unless the log would grow for ever.
//! 4. Who finds the file locked waits for a short random time and tries again, for about half a minute:
//!    the plain busy timeout of SQLite can starve one of several processes for seconds.
//!
//! # Not guaranteed
//! - Anything on a network file system: write-ahead logging needs memory that all processes share. The
//!   ones that Linux names as such are refused; elsewhere the user must know.

mod busy;
mod checkpoint;
mod error;
mod file;
mod filesystem;
mod log;
mod migrate;
mod reader;
mod sum;
mod times;
mod writer;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread::{self, JoinHandle};

use rusqlite::Connection;
use tokio::sync::oneshot;

use self::checkpoint::Checkpointer;
use self::log::Log;
use self::reader::Reader;
use self::writer::{Pen, Writer};

pub(crate) use error::StoreError;
pub(crate) use migrate::{Migration, migrate};
pub(crate) use sum::sum;
#[cfg(feature = "client")]
pub(crate) use times::length;
pub(crate) use times::{after, millis};
pub(crate) use writer::{Flush, atomically};

#[cfg(doc)]
use self::{checkpoint::LOG_BYTES, writer::MOST_AT_ONCE};

/// An open file.
#[derive(Debug)]
pub(crate) struct Store {
    path: PathBuf,
    writer: Writer,
    reader: Reader,
    /// The one that writes; the others end before it.
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Store {
    /// Opens a file, creates it with pages of so many bytes if it is not there, and prepares it: tables, and
    /// what else there is to check.
    pub(crate) async fn open(
        path: &Path,
        page: u32,
        prepare: impl FnOnce(&mut Connection) -> Result<(), StoreError> + Send + 'static,
    ) -> Result<Store, StoreError> {
        let path = file::absolute(path)?;
        let (opened, opening) = oneshot::channel();
        let (jobs, queue) = mpsc::channel();
        let (queries, questions) = mpsc::channel();
        let file = path.clone();
        let start = move || {
            let open = || {
                let mut connection = file::create(&file, page)?;
                prepare(&mut connection)?;
                let page = file::page_size(&connection)?;
                Ok((Pen::of(connection)?, file::open(&file)?, file::open(&file)?, page))
            };
            let (pen, reading, checkpointing, page) = match open() {
                Ok(connections) => connections,
                Err(error) => return drop(opened.send(Err(StoreError::of(error, &file)))),
            };
            let (checkpointer, log) = (Checkpointer::new(page), Log::of(&file, page));
            let spawned = || -> io::Result<_> {
                let reading = spawn("read", move || reader::work(&reading, &questions))?;
                Ok((reading, checkpointer.clone().spawn(checkpointing)?))
            };
            let (reading, checkpointing) = match spawned() {
                Ok(threads) => threads,
                Err(error) => {
                    return drop(opened.send(Err(StoreError::failed(error))));
                }
            };
            drop(opened.send(Ok(())));
            writer::work(pen, &queue, &checkpointer, log);
            // One after the other: the last connection to close moves the log into the file and deletes
            // it, and of two at once neither is the last.
            join(reading);
            checkpointer.stop();
            join(checkpointing);
        };
        let thread = spawn("write", start).map_err(StoreError::failed)?;
        opening.await.map_err(StoreError::failed)??;
        let (writer, reader) = (Writer::new(jobs), Reader::new(queries));
        Ok(Store { path, writer, reader, thread: Mutex::new(Some(thread)) })
    }

    /// Writes, and returns when that is committed, and on disk if it is to be by then. The closure may be run more
    /// than once.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        flush: Flush,
        verb: impl FnMut(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.writer.write(flush, verb).await.map_err(|error| error.of(&self.path))
    }

    /// Writes, and lets nobody know whether it went well.
    #[cfg(feature = "client")]
    pub(crate) fn write_soon(
        &self,
        verb: impl FnMut(&Connection) -> rusqlite::Result<()> + Send + 'static,
    ) {
        self.writer.write_soon(verb);
    }

    /// Reads.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.reader.read(query).await.map_err(|error| error.of(&self.path))
    }

    /// Writes all that is queued and closes the file. Whatever is asked afterwards is refused.
    pub(crate) async fn close(&self) {
        let Some(thread) = self.stop() else { return };
        let (closed, closing) = oneshot::channel();
        let joined = spawn("close", move || {
            join(thread);
            // Whoever waited may have gone.
            let (Ok(()) | Err(())) = closed.send(());
        });
        if joined.is_ok() {
            // It ends either way: a thread that panicked is gone too.
            let (Ok(()) | Err(_)) = closing.await;
        }
    }

    fn stop(&self) -> Option<JoinHandle<()>> {
        self.writer.stop();
        self.reader.stop();
        self.thread.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Drop for Store {
    /// Writes all that is queued: blocks for as long as that takes, but where it is the thread that writes, which ends
    /// by itself. That lets go of the store last when the work that it was handed in holds it.
    fn drop(&mut self) {
        let writes = |thread: &JoinHandle<()>| thread.thread().id() == thread::current().id();
        self.stop().filter(|thread| !writes(thread)).into_iter().for_each(join);
    }
}

fn join(thread: JoinHandle<()>) {
    // Its panic was reported when it happened; here there is nothing left to be done about it.
    let (Ok(()) | Err(_)) = thread.join();
}

fn spawn(what: &str, work: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    thread::Builder::new().name(format!("post-once {what}")).spawn(work)
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::sync::Arc;
    use std::task::{Context, Waker};

    use super::*;

    /// Queues a write, and waits no longer for it.
    fn queue(
        store: &Store,
        mut verb: impl FnMut(&Connection) -> rusqlite::Result<()> + Send + 'static,
    ) {
        let write = pin!(store.write(Flush::Now, move |connection| verb(connection)));
        assert!(write.poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }

    #[tokio::test]
    async fn work_that_is_the_last_to_hold_the_store_takes_nothing_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("held.db");
        let prepare = |on: &mut Connection| Ok(on.execute_batch("CREATE TABLE t (x)")?);
        let store = Arc::new(Store::open(&path, 4096, prepare).await.unwrap());
        let (begins, begun) = mpsc::channel();
        let (goes, goes_on) = mpsc::channel::<()>();
        let held = Arc::clone(&store);
        queue(&store, move |_| {
            begins.send(held.path.clone()).unwrap();
            goes_on.recv().unwrap();
            Ok(())
        });
        begun.recv().unwrap();
        let (ran, run) = mpsc::channel();
        queue(&store, move |on| {
            ran.send(()).unwrap();
            on.execute_batch("INSERT INTO t VALUES (1)")
        });
        drop(store);
        goes.send(()).unwrap();
        run.recv().expect("what was queued behind it is written");
        // Its sender goes after the commit, with the verb.
        run.recv().unwrap_err();
        let count = "SELECT count(*) FROM t";
        let written = Connection::open(&path).unwrap().query_row(count, [], |row| row.get(0));
        assert_eq!(written, Ok(1));
    }
}
