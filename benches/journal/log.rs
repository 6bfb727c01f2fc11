//! The reference: the same bytes at the end of one file, one `fdatasync` for each batch.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, Sender};

use tokio::sync::oneshot;

/// So many records share a sync at most, as in the store.
const MOST_AT_ONCE: usize = 256;

type Record = (Vec<u8>, oneshot::Sender<()>);

#[derive(Clone)]
pub(crate) struct Log(Sender<Record>);

impl Log {
    pub(crate) fn open(path: &Path) -> Log {
        let file = OpenOptions::new().create_new(true).append(true).open(path).unwrap();
        let (records, queue) = mpsc::channel();
        std::thread::spawn(move || work(file, &queue));
        Log(records)
    }

    pub(crate) async fn append(&self, record: Vec<u8>) {
        let (reply, written) = oneshot::channel();
        self.0.send((record, reply)).unwrap();
        written.await.unwrap();
    }
}

fn work(mut file: File, queue: &Receiver<Record>) {
    let mut bytes = Vec::new();
    while let Ok(first) = queue.recv() {
        let mut batch = vec![first];
        batch.extend(queue.try_iter().take(MOST_AT_ONCE - 1));
        bytes.clear();
        batch.iter().for_each(|(record, _)| bytes.extend_from_slice(record));
        file.write_all(&bytes).unwrap();
        file.sync_data().unwrap();
        batch.into_iter().for_each(|(_, reply)| reply.send(()).unwrap());
    }
}
