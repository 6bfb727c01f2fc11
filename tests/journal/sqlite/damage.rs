//! A file that a broken disk has changed.

use std::fs;

use post_once::journal::{Journal, JournalError, Record, RowId, SqliteJournal, State, To};
use post_once::testkit::journal::{answer, decided, draft, due, list};

use super::{LEASE, Place, begin, refused};

const ROWS: usize = 60;

/// A journal of named operations, every other one completed.
async fn filled() -> (Place, Vec<u8>, Vec<Record>) {
    let place = Place::new();
    let journal = place.open().await;
    for number in 0..ROWS {
        let body = format!(r#"{{"amount":{number},"note":"{}"}}"#, "é".repeat(number * 7));
        let claim = begin(&journal, &draft(Some(&format!("order-{number}")), body)).await;
        if number % 2 == 0 {
            let done = decided(To::Completed, answer(201, format!("charge {number}")));
            assert!(matches!(
                journal.finish(&claim, &done).await.unwrap(),
                post_once::journal::Held::Yes(())
            ));
        }
    }
    let records = super::all(&journal).await;
    journal.close().await;
    let bytes = fs::read(&place.path).unwrap();
    (place, bytes, records)
}

/// All that can be read, page by page, past what cannot.
async fn readable(journal: &SqliteJournal) -> Vec<Record> {
    let (mut read, mut after) = (Vec::<Record>::new(), None);
    for _ in 0..2 * ROWS {
        match journal.list(&list([], None, after, 10)).await {
            Ok(page) if page.is_empty() => break,
            Ok(page) => {
                after = page.last().map(|record| record.row);
                read.extend(page);
            }
            Err(JournalError::Corrupt { row, .. }) if after < Some(RowId(row)) => {
                after = Some(RowId(row));
            }
            Err(_) => break,
        }
    }
    read
}

/// Nothing is handed out that is not what was written, nothing panics, and one bad byte takes little.
#[tokio::test(flavor = "multi_thread")]
async fn a_flipped_byte_changes_no_request_and_no_answer() {
    let (place, good, records) = filled().await;
    let (mut told, mut whole) = (0, 0);
    for at in (0..good.len()).step_by(331) {
        let mut bytes = good.clone();
        bytes[at] ^= 0x15;
        for suffix in ["-wal", "-shm"] {
            let (Ok(()) | Err(_)) = fs::remove_file(place.beside(suffix));
        }
        fs::write(&place.path, &bytes).unwrap();
        let journal = match SqliteJournal::open(&place.path).await {
            Ok(journal) => journal,
            Err(JournalError::Unusable(_) | JournalError::Failed(_)) => {
                told += 1;
                continue;
            }
            Err(error) => panic!("byte {at}: {error}"),
        };
        let read = readable(&journal).await;
        told += usize::from(read.len() < ROWS);
        whole += usize::from(read.len() >= ROWS - 1);
        let claimed = journal.claim_due(&due(&[], 5), LEASE).await.unwrap_or_default();
        for record in read.into_iter().chain(claimed.into_iter().map(|(_, record)| record)) {
            let written = records.iter().find(|row| row.draft.key == record.draft.key).unwrap();
            assert_eq!(record.draft.request, written.draft.request, "byte {at}");
            assert_eq!(record.draft.terms, written.draft.terms, "byte {at}");
            assert_eq!(record.draft.name, written.draft.name, "byte {at}");
            assert!(record.answer.is_none() || record.answer == written.answer, "byte {at}");
        }
        let (Ok(_) | Err(_)) = journal.by_name("", "order-7").await;
        let (Ok(_) | Err(_)) = journal.gauges().await;
        let (Ok(_) | Err(_)) = journal.insert(&draft(Some("new"), "{}"), LEASE).await;
        journal.close().await;
    }
    assert!(told > 30, "most are told: {told}");
    assert!(whole > 30, "and most take no more than a row: {whole}");
}

#[tokio::test]
async fn a_truncated_file_is_told_and_left_as_it_is() {
    let (place, good, _) = filled().await;
    let page = 8192;
    for length in [100, 4096, page, 3 * page + 1, good.len() / 2, good.len() - page, good.len() - 1]
    {
        fs::write(&place.path, &good[..length]).unwrap();
        match SqliteJournal::open(&place.path).await {
            Err(JournalError::Unusable(what)) => assert!(what.contains("journal"), "{what}"),
            Err(error) => panic!("{length}: {error}"),
            Ok(journal) => {
                let error = journal.list(&list([], None, None, 1000)).await.map(|rows| rows.len());
                assert!(matches!(error, Err(JournalError::Unusable(_))), "{length}: {error:?}");
                journal.close().await;
            }
        }
        assert_eq!(fs::read(&place.path).unwrap(), good[..length], "{length}");
    }
    fs::write(&place.path, &good[..50]).unwrap();
    refused(&place.path).await;
}

/// A row that cannot be read is set aside, so that it does not come again and again; others go on.
#[tokio::test]
async fn a_bad_row_does_not_hold_up_the_others() {
    let place = Place::new();
    let journal = place.open().await;
    for number in 0..4 {
        journal.enqueue(&draft(Some(&format!("order-{number}")), "{}")).await.unwrap();
    }
    let plain = place.plain();
    plain
        .execute_batch(
            "UPDATE post_once_operations SET body = x'00' WHERE name = 'order-1';
             UPDATE post_once_operations SET head = x'ff' WHERE name = 'order-2';",
        )
        .unwrap();
    let claimed = journal.claim_due(&due(&[], 10), LEASE).await.unwrap();
    let names: Vec<_> =
        claimed.iter().map(|(_, record)| record.draft.name.clone().unwrap()).collect();
    assert_eq!(names, ["order-0", "order-3"]);
    assert_eq!(journal.gauges().await.unwrap().unknown, 2, "for a person");
    let error = journal.by_name("", "order-1").await.unwrap_err();
    assert!(matches!(error, JournalError::Corrupt { row: 2, .. }), "{error}");
    let error = journal.insert(&draft(Some("order-2"), "{}"), LEASE).await.unwrap_err();
    assert!(matches!(error, JournalError::Corrupt { row: 3, .. }), "{error}");
    let read: Vec<_> = readable(&journal).await.iter().map(|record| record.row.0).collect();
    assert_eq!(read, [1, 4]);
    assert!(journal.list(&list([State::Unknown], None, None, 9)).await.is_err());
}
