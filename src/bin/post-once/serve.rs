//! `post-once serve`.

use std::io;

use post_once::testkit::Server;
use sqlx::postgres::PgPoolOptions;

use crate::args::ServeArgs;
use crate::exit::Exit;
use crate::journal::{PATIENCE, Place};
use crate::output::{print, say};
use crate::signal::{self, Stop};

/// Serves until it is asked to stop.
pub(crate) fn run(args: &ServeArgs) -> Exit {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    match runtime.and_then(|runtime| runtime.block_on(serve(args))) {
        Ok(exit) => exit,
        Err(error) => {
            let what = match &args.store {
                // The socket has kinds of its own.
                Some(store) if error.kind() == io::ErrorKind::Other => {
                    format!("the store {} cannot be used", store.shown())
                }
                _ => format!("cannot listen on port {}", args.port),
            };
            say(&format!("error: {what}: {error}"));
            Exit::Environment
        }
    }
}

async fn serve(args: &ServeArgs) -> io::Result<Exit> {
    let stop = signal::stop()?;
    let server =
        Server::builder().port(args.port).delay(args.delay).faults(args.fault.iter().cloned());
    let server = match &args.store {
        None => server.layered(),
        Some(Place::File(path)) => server.sqlite(path),
        Some(Place::Database(url)) => {
            let pool = PgPoolOptions::new().acquire_timeout(PATIENCE).connect_lazy(url);
            server.postgres(pool.map_err(io::Error::other)?)
        }
    };
    let server = server.start().await?;
    let line = format!("listening on {}\n", server.url(""));
    if print(line.as_bytes(), Exit::Success) == Exit::Environment {
        return Ok(Exit::Environment);
    }
    let stop = stop.await;
    server.stop().await;
    Ok(match stop {
        Stop::Interrupt => Exit::Interrupted,
        Stop::Terminate => Exit::Success,
    })
}
