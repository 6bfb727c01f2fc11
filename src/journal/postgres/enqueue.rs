//! The function that enqueues from SQL.

/// A migration of its own. Parameters are only ever added at the end, with defaults; what would change
/// the meaning of one gets another name.
pub(super) const FUNCTION: &str = include_str!("migrations/2_enqueue.sql");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::headers::{CONTENT, DROPPABLE};

    #[test]
    fn sql_sorts_headers_by_the_lists_of_rust() {
        let lists = FUNCTION.split("header.name").filter_map(|part| {
            let (_, list) =
                part.split_once("ANY (ARRAY[").or_else(|| part.split_once("ALL (ARRAY["))?;
            let (list, _) = list.split_once(']')?;
            Some(list.split(',').map(|name| name.trim().trim_matches('\'')).collect::<Vec<_>>())
        });
        assert_eq!(lists.collect::<Vec<_>>(), [CONTENT.to_vec(), DROPPABLE.to_vec()]);
    }
}
