//! The arrows between the modules, read from the sources: down, or sideways where it is listed here.
//! And two rules of the house that no lint knows: how long a file may be, and who reads the clock.

mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The modules by level. One that lies deeper may have a level of its own, as `journal/sqlite`.
const LEVELS: &[&[&str]] = &[
    &["clock", "key", "fingerprint"],
    &["retry", "store", "server/claim", "server/answer"],
    &[
        "report",
        "contract",
        "operation",
        "observer",
        "redact",
        "refusal",
        "journal",
        "server/store",
        "server/problem",
    ],
    &[
        "error",
        "telemetry",
        "journal/memory",
        "journal/sqlite",
        "journal/postgres",
        "server/store/memory",
        "server/store/postgres",
        "server/store/sqlite",
    ],
    &["engine", "middleware", "server/service", "server/once", "server/sweep"],
    &["client", "server/layer"],
    &["resume", "server"],
];

/// The arrows inside a level, from and to. Without cycles.
const SIDEWAYS: &[(&str, &str)] = &[
    ("observer", "report"),
    ("operation", "contract"),
    ("operation", "redact"),
    ("operation", "refusal"),
    ("operation", "journal"),
    ("journal", "contract"),
    ("journal", "redact"),
    ("journal", "report"),
    ("middleware", "engine"),
    ("server/once", "server/service"),
];

/// Uses everything, and is used by nothing.
const TESTKIT: &str = "testkit";

const LONGEST: usize = 400;

/// Files that may be longer, and why.
const LONG: &[(&str, &str)] = &[];

/// How the real time is read or waited for.
const REAL_TIME: &[&str] = &[
    "Instant::now",
    "SystemTime::now",
    "time::sleep",
    "time::timeout",
    "time::interval",
    "thread::sleep",
];

/// Who may: the seam itself, servers on real sockets, and the tool.
const REAL_TIME_IN: &[&str] = &["src/clock.rs", "src/testkit/", "src/bin/"];

/// One file, its path from the root of the package.
struct File {
    path: String,
    source: String,
}

impl File {
    /// The module that it is, as `retry/window`; `None` for the root and for what is no part of the
    /// library.
    fn module(&self) -> Option<String> {
        let path = self.path.strip_prefix("src/")?.strip_suffix(".rs")?;
        let module = path.strip_suffix("/mod").unwrap_or(path);
        let is_test = module.ends_with("tests");
        (module != "lib" && !module.starts_with("bin/") && !is_test).then(|| module.to_owned())
    }

    /// The modules of the crate that its code names.
    fn names(&self) -> Vec<Vec<String>> {
        let depth = self.module().map_or(0, |module| module.split('/').count());
        source::paths_from_root(&source::without_tests(&source::code(&self.source)), depth.max(1))
    }
}

fn files(folder: &str) -> Vec<File> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    let mut folders = vec![root.join(folder)];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
        for path in entries.collect::<BTreeSet<PathBuf>>() {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let shown = path.strip_prefix(root).unwrap().to_str().unwrap();
                let source = fs::read_to_string(&path).unwrap();
                files.push(File { path: shown.replace('\\', "/"), source });
            }
        }
    }
    files
}

/// The longest listed prefix of a module, and its level.
fn level(module: &[String]) -> Option<(String, usize)> {
    (1..=module.len()).rev().find_map(|length| {
        let prefix = module[..length].join("/");
        let level = LEVELS.iter().position(|level| level.contains(&prefix.as_str()))?;
        Some((prefix, level))
    })
}

/// The arrows of a file that go up, sideways unlisted, or where no level is known.
fn violations(file: &File) -> Vec<String> {
    let Some(module) = file.module() else { return Vec::new() };
    let module: Vec<_> = module.split('/').map(str::to_owned).collect();
    if module[0] == TESTKIT {
        return Vec::new();
    }
    let Some((from, from_level)) = level(&module) else {
        return vec![format!("{}: the module has no level; give it one", file.path)];
    };
    let mut found = Vec::new();
    for path in file.names() {
        let shown = path.join("::");
        match level(&path) {
            _ if path[0] == module[0] && level(&path).is_none_or(|(to, _)| to == from) => {}
            None => found.push(format!(
                "{}: crate::{shown} is no module with a level; name what you need where it lives",
                file.path
            )),
            Some((_, to_level)) if to_level < from_level => {}
            Some((to, to_level)) if to_level == from_level => {
                if !SIDEWAYS.contains(&(from.as_str(), to.as_str())) {
                    found.push(format!("{}: crate::{shown} points sideways", file.path));
                }
            }
            Some(_) => found.push(format!("{}: crate::{shown} points up", file.path)),
        }
    }
    found
}

#[test]
fn arrows_point_down_or_sideways_where_listed() {
    let found: Vec<_> = files("src").iter().flat_map(violations).collect();
    assert!(found.is_empty(), "{found:#?}");
}

/// What both halves of the crate stand on. Neither knows anything else of the other.
const SHARED: &[&str] = &["clock", "key", "fingerprint", "store"];

/// The arrows of a file that cross from one half of the crate to the other.
fn crossings(file: &File) -> Vec<String> {
    let Some(module) = file.module() else { return Vec::new() };
    let half = |module: &str| match module.split('/').next() {
        Some(TESTKIT) => None,
        Some(top) if SHARED.contains(&top) => None,
        top => Some(top == Some("server")),
    };
    let Some(ours) = half(&module) else { return Vec::new() };
    let names = file.names().into_iter().map(|path| path.join("/"));
    let crossing = names.filter(|name| half(name).is_some_and(|theirs| theirs != ours));
    crossing.map(|name| format!("{}: {name} is of the other half", file.path)).collect()
}

#[test]
fn the_halves_know_nothing_of_each_other() {
    let found: Vec<_> = files("src").iter().flat_map(crossings).collect();
    assert!(found.is_empty(), "{found:#?}");

    let file = |path: &str, source: &str| File { path: path.into(), source: source.into() };
    for (path, source, crosses) in [
        ("src/server/layer/run.rs", "use crate::retry::Delay;", true),
        ("src/server/store/sqlite.rs", "use crate::journal::Journal;", true),
        ("src/resume/mod.rs", "use crate::server::Claim;", true),
        ("src/server/layer/run.rs", "use crate::clock::Clock;", false),
        ("src/server/layer/run.rs", "use crate::server::Claim;", false),
        ("src/testkit/server.rs", "use crate::server::Claim;", false),
    ] {
        assert_eq!(!crossings(&file(path, source)).is_empty(), crosses, "{path}: {source}");
    }
}

#[test]
fn forbidden_arrows_are_found() {
    let file = |path: &str, source: &str| File { path: path.into(), source: source.into() };
    for (path, source, expected) in [
        ("src/retry/decide.rs", "use crate::engine::Engine;", Some("points up")),
        ("src/retry/decide.rs", "use super::super::engine::Engine;", Some("points up")),
        ("src/key/mod.rs", "use crate::{clock::Clock};", Some("points sideways")),
        ("src/contract/rule.rs", "fn f() { crate::operation::f() }", Some("points sideways")),
        ("src/engine/mod.rs", "use crate::testkit::Server;", Some("no module with a level")),
        ("src/engine/mod.rs", "use crate::Error;", Some("no module with a level")),
        ("src/error.rs", "use super::client::Client;", Some("points up")),
        ("src/novel.rs", "", Some("has no level")),
        ("src/retry/decide.rs", "use crate::key::KeyError;", None),
        ("src/retry/decide.rs", "use crate::retry::Known;", None),
        ("src/retry/decide.rs", "#[cfg(test)] mod tests { use crate::engine::Engine; }", None),
        ("src/middleware.rs", "use crate::engine::Engine;", None),
        ("src/testkit/server.rs", "use crate::client::Client;", None),
        ("src/bin/post-once/main.rs", "use crate::client::Client;", None),
    ] {
        let found = violations(&file(path, source));
        match expected {
            Some(expected) => assert!(
                found.len() == 1 && found[0].contains(expected),
                "{path}: {source}: {found:?}"
            ),
            None => assert!(found.is_empty(), "{path}: {source}: {found:?}"),
        }
    }
}

/// The arrows between the listed modules as they are.
fn arrows() -> BTreeMap<String, BTreeSet<String>> {
    let mut arrows: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in files("src") {
        let Some(module) = file.module() else { continue };
        let module: Vec<_> = module.split('/').map(str::to_owned).collect();
        let Some((from, _)) = level(&module) else { continue };
        let to = file.names().into_iter().filter_map(|path| Some(level(&path)?.0));
        let to: Vec<_> = to.filter(|to| *to != from).collect();
        arrows.entry(from).or_default().extend(to);
    }
    arrows
}

/// Takes away what points to nothing that is left; what cannot be taken away is in a cycle, or
/// points into one.
fn cyclic(mut arrows: BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    loop {
        let left: BTreeSet<_> = arrows.keys().cloned().collect();
        arrows.retain(|_, to| to.iter().any(|to| left.contains(to)));
        if arrows.len() == left.len() {
            return left.into_iter().collect();
        }
    }
}

#[test]
fn no_arrows_form_a_cycle() {
    assert!(cyclic(arrows()).is_empty(), "{:?}", cyclic(arrows()));

    let arrow = |from: &str, to: &str| (from.to_owned(), BTreeSet::from([to.to_owned()]));
    assert_eq!(cyclic([arrow("a", "b"), arrow("b", "c"), arrow("c", "b")].into()), ["a", "b", "c"]);
    assert!(cyclic([arrow("a", "b"), arrow("b", "c")].into()).is_empty());
}

#[test]
fn tables_list_nothing_that_is_not_there() {
    let modules: BTreeSet<_> = files("src").iter().filter_map(File::module).collect();
    for module in LEVELS.iter().copied().flatten() {
        assert!(modules.contains(*module), "{module} has a level and is no module");
    }
    let arrows = arrows();
    for (from, to) in SIDEWAYS {
        let used = arrows.get(*from).is_some_and(|targets| targets.contains(*to));
        assert!(used, "nothing points from {from} to {to}");
    }
    for (path, reason) in LONG {
        let file = files("src").into_iter().chain(files("tests")).find(|file| file.path == *path);
        let lines = file.map_or(0, |file| file.source.lines().count());
        assert!(lines > LONGEST, "{path} has {lines} lines and needs no exception ({reason})");
    }
}

#[test]
fn tool_is_made_of_its_own_files_and_the_public_api() {
    for file in files("src/bin") {
        let code = source::code(&file.source);
        for forbidden in ["#[path", "include!"] {
            assert!(!code.contains(forbidden), "{}: {forbidden}", file.path);
        }
    }
}

#[test]
fn no_file_is_longer_than_it_may_be() {
    let too_long = |file: &File| {
        let lines = file.source.lines().count();
        let listed = LONG.iter().any(|(path, _)| *path == file.path);
        (lines > LONGEST && !listed).then(|| format!("{}: {lines} lines", file.path))
    };
    let found: Vec<_> = files("src").iter().chain(&files("tests")).filter_map(too_long).collect();
    assert!(found.is_empty(), "more than {LONGEST} lines: {found:#?}");
}

/// The readings and waits in a file that it may not have.
fn real_time(file: &File) -> Vec<String> {
    if REAL_TIME_IN.iter().any(|allowed| file.path.starts_with(allowed)) {
        return Vec::new();
    }
    let code = source::code(&file.source);
    let found = REAL_TIME.iter().filter(|name| code.contains(**name));
    found.map(|name| format!("{}: {name}", file.path)).collect()
}

#[test]
fn real_time_is_read_and_waited_for_in_one_place() {
    let found: Vec<_> = files("src").iter().flat_map(real_time).collect();
    assert!(found.is_empty(), "ask the Clock: {found:#?}");

    let file = |path: &str, source: &str| File { path: path.into(), source: source.into() };
    let reads = "fn f() { let t = std::time::Instant::now(); }";
    assert_eq!(real_time(&file("src/engine/race.rs", reads)), ["src/engine/race.rs: Instant::now"]);
    assert!(real_time(&file("src/clock.rs", reads)).is_empty());
    assert!(real_time(&file("src/engine/race.rs", "// not Instant::now")).is_empty());
}
