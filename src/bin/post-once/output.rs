//! Standard output and standard error. A reader that has gone away is no failure and no panic.

use std::error::Error;
use std::io::{self, ErrorKind, Write};

use crate::exit::Exit;

/// Writes to standard output, whole; what stands in the way is said on standard error.
pub(crate) fn print(bytes: &[u8], exit: Exit) -> Exit {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            say(&format!("error: standard output cannot be written: {error}"));
            Exit::Environment
        }
        _ => exit,
    }
}

/// Writes a line to standard error.
pub(crate) fn say(line: &str) {
    // Where there is no standard error, there is nobody to tell.
    let _ = writeln!(io::stderr(), "{line}");
}

/// The text of an error and of its causes, less those that it quotes itself.
pub(crate) fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str("\n  caused by: ");
            text.push_str(&cause_text);
        }
        next = cause.source();
    }
    text
}
