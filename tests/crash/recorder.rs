//! Children whose writes to their journal are recorded, and whose flushes can be made to fail.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use libtest_mimic::{Failed, Trial};

/// A test with such children; ignored where there can be none.
pub(crate) fn trial(
    name: &str,
    test: impl FnOnce() -> Result<(), Failed> + Send + 'static,
) -> Trial {
    let compiler = Command::new("cc").arg("--version").output();
    let missing = !cfg!(target_os = "linux") || compiler.is_err();
    let trial = Trial::test(name, test).with_ignored_flag(missing);
    if missing { trial.with_kind("no C compiler, or no Linux") } else { trial }
}

/// Puts a child under the recorder of this journal, which is made in this folder.
pub(crate) fn under(mut child: Command, folder: &Path, journal: &Path) -> io::Result<Command> {
    let recorder = folder.join("recorder.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/crash/recorder.c");
    let compile = ["-shared", "-fPIC", "-O1", "-o"];
    let compiled = Command::new("cc").args(compile).arg(&recorder).arg(&source).status()?;
    assert!(compiled.success(), "the recorder does not compile");
    child.env("LD_PRELOAD", &recorder).env("POST_ONCE_RECORD", journal);
    Ok(child)
}

/// The file that makes flushes fail for as long as it is there.
pub(crate) fn broken(journal: &Path) -> PathBuf {
    let mut path = journal.as_os_str().to_owned();
    path.push(".broken");
    path.into()
}
