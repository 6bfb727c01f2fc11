//! What the APIs have in common: one route, and its answer.

use std::net::SocketAddr;

use axum::Router;
use axum::http::{Response, StatusCode};
use axum::serve::ListenerExt;
use tokio::net::TcpListener;

/// What an order is answered with.
pub(crate) fn ordered() -> Response<String> {
    let answer = r#"{"id":"or_1a2b3c4d5e6f","status":"accepted","amount":1999}"#;
    let response = Response::builder().status(StatusCode::CREATED);
    let response = response.header("content-type", "application/json");
    response.body(answer.to_owned()).expect("its parts are valid")
}

/// Serves it until the process ends.
pub(crate) async fn serve(app: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let listener = listener.tap_io(|stream| stream.set_nodelay(true).unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    address
}
