//! The customer: operations with names, in a journal, until each has come to its end.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use post_once::journal::{Journal, List, SqliteJournal, State};
use post_once::retry::RetryBudget;
use post_once::{Client, RetryPolicy};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

const AT_ONCE: usize = 16;
const LEASE: Duration = Duration::from_secs(1);

pub(crate) async fn post_all(journal: &Path, url: &str, operations: u32) {
    let journal = SqliteJournal::open(journal).await.unwrap();
    let client = client(journal.clone());
    loop {
        let done = completed(&journal).await;
        let open: Vec<_> = (0..operations).map(name).filter(|name| !done.contains(name)).collect();
        if open.is_empty() {
            break;
        }
        let room = Arc::new(Semaphore::new(AT_ONCE));
        let mut posting = JoinSet::new();
        for name in open {
            let permit = Arc::clone(&room).acquire_owned().await.unwrap();
            let (client, url) = (client.clone(), url.to_owned());
            posting.spawn(async move {
                post(&client, &url, &name).await;
                drop(permit);
            });
        }
        posting.join_all().await;
    }
    journal.close().await;
}

/// Once, or once more. Whatever came of it is in the journal.
async fn post(client: &Client, url: &str, name: &str) {
    // Each tenth by a handler whose effect is not in one transaction with its answer.
    let path = if name.ends_with('7') { "upserts" } else { "orders" };
    let body = serde_json::json!({ "operation": name, "amount": 4200 });
    let call = client.once(Method::POST, format!("{url}/{path}")).operation(name).json(&body);
    // An error says so much: it has not come to its end yet.
    let (Ok(_) | Err(_)) = call.send().await;
}

pub(crate) fn name(number: u32) -> String {
    format!("operation-{number}")
}

async fn completed(journal: &SqliteJournal) -> HashSet<String> {
    let (mut done, mut after) = (HashSet::new(), None);
    loop {
        let mut page = List::default();
        page.states = vec![State::Completed];
        page.after = after;
        let rows = journal.list(&page).await.unwrap();
        let Some(last) = rows.last() else { return done };
        after = Some(last.row);
        done.extend(rows.into_iter().filter_map(|row| row.draft.name));
    }
}

fn client(journal: SqliteJournal) -> Client {
    let policy = RetryPolicy::builder()
        .max_attempts(10_000)
        .base_delay(Duration::from_millis(5))
        .max_delay(Duration::from_millis(200))
        .attempt_timeout(Duration::from_millis(200))
        .deadline(Duration::from_secs(20))
        .retry_budget(RetryBudget::Unlimited)
        .build()
        .unwrap();
    Client::builder().policy(policy).journal(journal).lease(LEASE).build().unwrap()
}
