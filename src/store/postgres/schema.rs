//! The name of a schema, and statements in it.

use std::sync::Arc;

use super::Trouble;

/// Stands for the quoted schema in every statement.
const PLACE: &str = "{schema}";

/// The schema that belongs to us.
#[derive(Clone, Debug)]
pub(crate) struct Schema(Arc<str>);

impl Schema {
    /// Takes names that need no thought: letters, digits and underscores.
    pub(crate) fn parse(name: &str) -> Result<Schema, Trouble> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let sound = matches!(name.len(), 1..=63)
            && name.bytes().all(plain)
            && !name.starts_with(|first: char| first.is_ascii_digit())
            && !name.to_ascii_lowercase().starts_with("pg_");
        if sound {
            Ok(Schema(name.into()))
        } else {
            Err(Trouble::Unusable(format!(
                "{name:?} is no name for a schema here: take 1 to 63 ASCII letters, digits and \
                 underscores, no digit first, and not pg_"
            )))
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.0
    }

    /// The statement with the quoted schema in its places. Nothing else is ever put into a statement.
    pub(crate) fn sql(&self, statement: &str) -> Arc<str> {
        statement.replace(PLACE, &format!("\"{}\"", self.0)).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_names_are_schemas() {
        for name in ["post_once", "A", "_x9", &"a".repeat(63)] {
            assert!(Schema::parse(name).is_ok(), "{name}");
        }
        for name in ["", "9a", "a b", "a\"b", "pg_x", "PG_x", "ä", "a;", &"a".repeat(64)] {
            assert!(matches!(Schema::parse(name), Err(Trouble::Unusable(_))), "{name}");
        }
        let schema = Schema::parse("Mine").expect("a plain name");
        assert_eq!(&*schema.sql("SELECT {schema}.f()"), "SELECT \"Mine\".f()");
    }
}
