//! What the layer adds on the store in memory, without sockets: calls of the service, one after the other, on one
//! thread. What the thread had of a processor is counted, not how long it waited for one.

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use post_once::server::store::MemoryClaims;
use tower::ServiceExt;

use crate::compare::{load_average, median};
use crate::load::{ORDER, new_key};
use crate::{layer, memory};

/// So many that their time is many of the ticks, of up to 10 ms, in which Linux counts it.
const CALLS: usize = 20_000;
const ROUNDS: usize = 20;

pub(crate) async fn run() {
    let before = load_average();
    let bare = memory::router();
    let keyed = memory::router().layer(layer(MemoryClaims::new()));
    let answered: Vec<_> = (0..CALLS).map(|_| new_key()).collect();
    each(&keyed, &answered).await;
    let mut taken: [Vec<f64>; 3] = Default::default();
    for _ in 0..ROUNDS {
        let new: Vec<_> = (0..CALLS).map(|_| new_key()).collect();
        taken[0].push(each(&bare, &new).await);
        taken[1].push(each(&keyed, &new).await);
        taken[2].push(each(&keyed, &answered).await);
    }
    println!(
        "\nmemory, calls of the service: {ROUNDS} rounds, load {before} to {}",
        load_average()
    );
    println!("{:<22}{:>12}{:>14}", "", "µs/call", "added µs");
    for (name, times) in ["bare", "new keys", "replays"].iter().zip(&taken) {
        let added = times.iter().zip(&taken[0]).map(|(with, without)| with - without).collect();
        println!("{name:<22}{:>12.2}{:>14.2}", median(times.clone()), median(added));
    }
}

/// Calls it once under each of these keys: microseconds per call, with its request.
async fn each(app: &Router, keys: &[String]) -> f64 {
    let before = on_processor();
    for key in keys {
        let request = Request::post("/orders").header("idempotency-key", key);
        let request = request.header("content-type", "application/json").body(Body::from(ORDER));
        let response = app.clone().oneshot(request.unwrap()).await.unwrap();
        assert_eq!(response.status(), 201);
    }
    (on_processor() - before) / keys.len() as f64
}

/// Microseconds that this thread has had of a processor, as Linux counts them.
fn on_processor() -> f64 {
    let counted = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    counted.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e3
}
