//! The store in memory, in front of a handler that does nothing.

use axum::Router;
use axum::body::Bytes;
use axum::http::Response;
use axum::routing::post;
use post_once::server::store::MemoryClaims;

use crate::compare::{compare, variant};
use crate::load::{Keys, Load};
use crate::{Bench, api, layer};

pub(crate) async fn run(bench: &Bench) {
    let bare = bench.there(api::serve(router())).await;
    let keyed = router().layer(layer(MemoryClaims::new()));
    let keyed = bench.there(api::serve(keyed)).await;
    let answered = Load::on(keyed, Keys::New).await.answered(1_000).await;
    let variants = vec![
        variant("bare", Load::on(bare, Keys::New).await),
        variant("new keys", Load::on(keyed, Keys::New).await),
        variant("replays", Load::on(keyed, answered).await),
    ];
    compare("memory, a handler that does nothing", variants, &["bare"]).await;
}

pub(crate) fn router() -> Router {
    async fn order(body: Bytes) -> Response<String> {
        assert!(!body.is_empty());
        api::ordered()
    }
    Router::new().route("/orders", post(order))
}
