//! At the end: what the journal, the orders and the keys say of each operation.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use post_once::IdempotencyKey;
use post_once::journal::{Journal, List, Record, SqliteJournal, State};
use post_once::server::store::{ClaimStore, Name};

use crate::customer::name;
use crate::database::Database;

/// What was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) operations: usize,
    pub(crate) attempts: u32,
    /// Without an end in the journal, or without an order.
    pub(crate) lost: usize,
    /// With more than one order.
    pub(crate) doubled: usize,
    /// Under another key than the journal's, or two under one.
    pub(crate) wrong_key: usize,
    /// Whose customer was told something else than the server has stored.
    pub(crate) unequal: usize,
}

pub(crate) async fn judge(journal: &Path, database: &Database, operations: u32) -> Verdict {
    let journal = SqliteJournal::open(journal).await.unwrap();
    let rows = all(&journal).await;
    let claims = database.claims().await.unwrap();
    let mut orders: HashMap<String, Vec<String>> = HashMap::new();
    for (operation, key) in database.orders().await {
        orders.entry(operation).or_default().push(key);
    }
    let mut verdict = Verdict { operations: rows.len(), ..Verdict::default() };
    let mut keys = HashSet::new();
    let mut names: HashSet<_> = (0..operations).map(name).collect();
    for row in &rows {
        let operation = row.draft.name.clone().unwrap();
        names.remove(&operation);
        verdict.attempts += row.attempts;
        let orders = orders.remove(&operation).unwrap_or_default();
        verdict.lost += usize::from(row.state != State::Completed || orders.is_empty());
        verdict.doubled += usize::from(orders.len() > 1);
        let own = orders.iter().all(|key| *key == row.draft.key);
        verdict.wrong_key += usize::from(!own || !keys.insert(row.draft.key.clone()));
        verdict.unequal += usize::from(!is_as_stored(row, &*claims).await);
    }
    // Never begun, or an order that nobody asked for.
    verdict.lost += names.len();
    verdict.doubled += orders.len();
    verdict
}

async fn is_as_stored(row: &Record, claims: &dyn ClaimStore) -> bool {
    let key = IdempotencyKey::parse(&row.draft.key).unwrap();
    let Some(stored) = claims.look(&Name::new("", &key)).await.unwrap() else { return false };
    let (Some(told), Some(stored)) = (&row.answer, stored.answer) else { return false };
    told.status == stored.status.as_u16() && told.status == 201 && told.body == stored.body
}

async fn all(journal: &SqliteJournal) -> Vec<Record> {
    let mut rows: Vec<Record> = Vec::new();
    loop {
        let mut page = List::default();
        page.after = rows.last().map(|row| row.row);
        let more = journal.list(&page).await.unwrap();
        if more.is_empty() {
            return rows;
        }
        rows.extend(more);
    }
}
