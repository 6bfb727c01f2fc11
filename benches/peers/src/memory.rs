//! The stores in memory, in front of a handler that does nothing.

use std::sync::Arc;

use post_once::server::store::MemoryClaims;
use ruts::store::moka::MokaStore;

use crate::compare::{compare, variant};
use crate::peers::{self, Customers, Work};
use crate::{Bench, api, new_keys, replays};

/// Sessions that each hold a few of the keys: the store of the sessions goes through all that one holds at each write.
const CUSTOMERS: usize = 10_000;

pub(crate) async fn run(bench: &Bench) {
    let many = Customers::new(CUSTOMERS);
    let one = Customers::new(1);
    let sessions = || Arc::new(MokaStore::builder().max_capacity(10 * CUSTOMERS as u64).build());
    let (plain, keyed) = (sessions(), sessions());
    for store in [&plain, &keyed] {
        peers::log_in(&**store, &many).await;
        peers::log_in(&**store, &one).await;
    }
    let work = Work::default;

    let axum = bench.there(api::serve(peers::bare(work()))).await;
    let ours = bench.there(api::serve(peers::ours(work(), MemoryClaims::new()))).await;
    let plain = bench.there(api::serve(peers::sessions(peers::bare(work()), plain))).await;
    let keyed = bench.there(api::serve(peers::axum_idempotent(work(), keyed))).await;
    let ullun_bare = bench.there(peers::serve_ullun(peers::ullun_bare(work()))).await;
    let ullun = bench.there(peers::serve_ullun(peers::ullun(work()))).await;

    let (token, cookie) = (many.by_token(), many.by_cookie());
    let variants = vec![
        variant("axum", new_keys(axum, &token).await),
        variant("post-once", new_keys(ours, &token).await),
        variant("post-once, replays", replays(ours, &token).await),
        variant("axum, sessions", new_keys(plain, &cookie).await),
        variant("axum-idempotent", new_keys(keyed, &cookie).await),
        variant("… all in one session", new_keys(keyed, &one.by_cookie()).await),
        variant("… replays", replays(keyed, &cookie).await),
        variant("ullun", new_keys(ullun_bare, &token).await),
        variant("ullun, keys", new_keys(ullun, &token).await),
        variant("ullun, replays", replays(ullun, &token).await),
    ];
    let bases = ["axum", "axum, sessions", "ullun"];
    compare("keys in memory, a handler that does nothing", variants, &bases).await;
}
