//! Being told to stop.

use std::future::Future;
use std::io;

/// What asks the process to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Ctrl-C.
    Interrupt,
    /// SIGTERM, where there is one.
    Terminate,
}

/// Comes true when the process is asked to stop. From this call on, that no longer ends it by
/// itself.
///
/// # Errors
/// When the system does not let us listen: then it still does.
#[cfg(unix)]
pub(crate) fn stop() -> io::Result<impl Future<Output = Stop>> {
    use tokio::signal::unix::{SignalKind, signal};

    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => Stop::Interrupt,
            _ = terminate.recv() => Stop::Terminate,
        }
    })
}

/// Comes true when the process is asked to stop. From its first poll on, that no longer ends it by
/// itself.
///
/// # Errors
/// None here.
#[cfg(not(unix))]
pub(crate) fn stop() -> io::Result<impl Future<Output = Stop>> {
    Ok(async {
        match tokio::signal::ctrl_c().await {
            Ok(()) => Stop::Interrupt,
            Err(_) => std::future::pending().await,
        }
    })
}
