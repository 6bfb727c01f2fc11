//! Reading Rust sources as far as the rules need it: what is code, what is tested only, and which
//! paths lead out of a module.

/// The code of a file: comments, and what stands in strings and characters, become blanks.
pub(super) fn code(source: &str) -> String {
    let mut rest = source;
    let mut code = String::with_capacity(source.len());
    while let Some(first) = rest.chars().next() {
        let length = skipped(rest).unwrap_or(0);
        let (skip, keep) = match length {
            0 => ("", first.len_utf8()),
            length => (&rest[..length], 0),
        };
        code.extend(skip.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        code.push_str(&rest[skip.len()..skip.len() + keep]);
        rest = &rest[skip.len() + keep..];
        // A name that ends in `r` or `b` in front of a quote is no prefix of it.
        if keep > 0 && is_word(first) {
            let word = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            code.push_str(&rest[..word]);
            rest = &rest[word..];
        }
    }
    code
}

/// The length of the comment, string or character that `text` starts with.
fn skipped(text: &str) -> Option<usize> {
    if text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    if text.starts_with("/*") {
        return Some(block_comment(text));
    }
    let prefix = text.find(|c| !matches!(c, 'b' | 'r' | 'c')).filter(|at| *at <= 2)?;
    let (marks, quoted) = text.split_at(prefix);
    if marks.contains('r') {
        let hashes = quoted.len() - quoted.trim_start_matches('#').len();
        let inside = quoted[hashes..].strip_prefix('"')?;
        let close = format!("\"{}", "#".repeat(hashes));
        let length = inside.find(&close).map_or(inside.len(), |at| at + close.len());
        return Some(prefix + hashes + 1 + length);
    }
    let quote = quoted.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    // `'a` without a closing quote is a lifetime.
    if quote == '\'' && !quoted[1..].starts_with('\\') && quoted.chars().nth(2) != Some('\'') {
        return None;
    }
    let mut escaped = false;
    let end = quoted.char_indices().skip(1).find(|(_, c)| {
        let closes = *c == quote && !escaped;
        escaped = *c == '\\' && !escaped;
        closes
    });
    Some(prefix + end.map_or(quoted.len(), |(at, c)| at + c.len_utf8()))
}

fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        match text.as_bytes().get(at..at + 2) {
            Some(b"/*") => (depth, at) = (depth + 1, at + 2),
            Some(b"*/") => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

/// The code without the items that are compiled for tests only.
pub(super) fn without_tests(code: &str) -> String {
    const MARKS: [&str; 2] = ["#[cfg(test)]", "#[cfg(all(test,"];
    let mut kept = String::new();
    let mut rest = code;
    while let Some(start) = MARKS.iter().filter_map(|mark| rest.find(mark)).min() {
        kept.push_str(&rest[..start]);
        rest = &rest[start + item_length(&rest[start..])..];
    }
    kept + rest
}

/// The length of an item with its attributes: to its `;`, or over its braces.
fn item_length(code: &str) -> usize {
    let mut depth = 0;
    for (at, c) in code.char_indices() {
        match c {
            '{' | '(' | '[' => depth += 1,
            '}' | ')' | ']' => depth -= 1,
            ';' if depth == 0 => return at + 1,
            _ => {}
        }
        if c == '}' && depth == 0 {
            return at + 1;
        }
    }
    code.len()
}

/// The paths from the root of the crate in a file that lies `depth` modules below it (1 for
/// `src/error.rs` and `src/retry/mod.rs`), as `["retry", "window", "Window"]`.
pub(super) fn paths_from_root(code: &str, depth: usize) -> Vec<Vec<String>> {
    let root = "super::".repeat(depth);
    let mut paths = Vec::new();
    let code: String = code.split_whitespace().collect::<Vec<_>>().join(" ");
    let code = code.replace(" :: ", "::").replace(":: ", "::").replace("{ ", "{");
    for start in ["crate::", root.as_str()] {
        for (at, _) in code.match_indices(start) {
            let before = code[..at].chars().next_back();
            // `super::super::` holds `super::` again, further in.
            if !before.is_some_and(|c| is_word(c) || c == ':') {
                tree(&code[at + start.len()..], &mut Vec::new(), &mut paths);
            }
        }
    }
    paths
}

/// Reads one tree of a `use`, or a path, and returns what follows.
fn tree<'a>(text: &'a str, prefix: &mut Vec<String>, paths: &mut Vec<Vec<String>>) -> &'a str {
    if let Some(mut rest) = text.strip_prefix('{') {
        loop {
            rest = rest.trim_start();
            if let Some(end) = rest.strip_prefix('}') {
                return end;
            }
            let left = rest.len();
            rest = tree(rest, prefix, paths).trim_start();
            rest = rest.strip_prefix(',').unwrap_or(rest);
            if rest.len() == left {
                return rest;
            }
        }
    }
    let end = text.find(|c| !is_word(c)).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    prefix.push(name.to_owned());
    let rest = match rest.strip_prefix("::") {
        Some(deeper) if deeper.starts_with(|c| is_word(c) || c == '{') => {
            tree(deeper, prefix, paths)
        }
        _ => {
            paths.push(prefix.clone());
            rest
        }
    };
    prefix.pop();
    rest.strip_prefix(" as ").map_or(rest, |alias| alias.trim_start_matches(is_word))
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(source: &str, depth: usize) -> Vec<String> {
        let code = without_tests(&code(source));
        paths_from_root(&code, depth).iter().map(|path| path.join("/")).collect()
    }

    #[test]
    fn every_form_of_a_path_is_found() {
        for (source, expected) in [
            ("use crate::error::Error;", &["error/Error"][..]),
            ("use crate::retry::{Delay, window::Window};", &["retry/Delay", "retry/window/Window"]),
            ("use crate::{\n    error::Error as E,\n    key,\n};", &["error/Error", "key"]),
            ("use crate::{key::{self, A}, clock};", &["key/self", "key/A", "clock"]),
            ("pub(crate) use crate :: engine :: run;", &["engine/run"]),
            ("fn f() { crate::operation::check_url(&url)? }", &["operation/check_url"]),
            ("macro_rules! m { () => { $crate::retry::Known } }", &["retry/Known"]),
            ("use crate::key::*;", &["key"]),
            ("let c = '\"'; use crate::a::B; let s = \"\\\"\";", &["a/B"]),
            ("fn f<'a>(x: &'a str) { crate::a::b(x) }", &["a/b"]),
            ("let x = r#\"a\"# ; crate::a::b()", &["a/b"]),
            ("let var = \"x\"; crate::a::b()", &["a/b"]),
        ] {
            assert_eq!(found(source, 1), expected, "{source}");
        }
    }

    #[test]
    fn super_counts_only_where_it_reaches_the_root() {
        assert_eq!(found("use super::engine::Engine;", 1), ["engine/Engine"]);
        assert!(found("use super::engine::Engine;", 2).is_empty());
        assert_eq!(found("use super::super::engine::Engine;", 2), ["engine/Engine"]);
    }

    #[test]
    fn comments_strings_and_tests_are_no_code() {
        for source in [
            "//! [`crate::engine`]",
            "/// See crate::engine::Engine.",
            "/* crate::engine /* crate::b */ crate::c */",
            "let s = \"crate::engine\";",
            "let s = \"\\\" crate::engine\";",
            "let s = r##\"\"# crate::engine\"##;",
            "let s = b\"crate::engine\";",
            "#[cfg(test)]\nmod tests { fn f() { let c = '}'; } use crate::engine::Engine; }",
            "#[cfg(test)]\n#[path = \"x.rs\"]\nmod tests;",
            "#[cfg(test)]\nuse crate::engine::Engine;",
            "#[cfg(all(test, feature = \"x\"))]\nmod tests { use crate::engine::Engine; }",
            "use mycrate::engine::Engine;",
        ] {
            assert!(found(source, 1).is_empty(), "{source}");
        }
        let after = "#[cfg(test)]\nmod tests { fn f() { \"}\" } }\nuse crate::engine::Engine;";
        assert_eq!(found(after, 1), ["engine/Engine"]);
    }
}
