//! `post-once serve`.

use std::io;

use post_once::testkit::Server;

use crate::args::ServeArgs;
use crate::exit::Exit;
use crate::output::{print, say};
use crate::signal::{self, Stop};

/// Serves until it is asked to stop.
pub(crate) fn run(args: &ServeArgs) -> Exit {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    match runtime.and_then(|runtime| runtime.block_on(serve(args))) {
        Ok(exit) => exit,
        Err(error) => {
            say(&format!("error: cannot listen on port {}: {error}", args.port));
            Exit::Environment
        }
    }
}

async fn serve(args: &ServeArgs) -> io::Result<Exit> {
    let stop = signal::stop()?;
    let server = Server::builder()
        .port(args.port)
        .delay(args.delay)
        .faults(args.fault.iter().cloned())
        .start()
        .await?;
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
