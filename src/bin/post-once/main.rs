//! The command-line tool: `post-once`.

fn main() {}
