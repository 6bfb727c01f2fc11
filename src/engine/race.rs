//! A limit on work.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use crate::clock::Sleep;

/// The work's result, or nothing when the limit passes first. Work that is done when the limit
/// passes counts as done.
pub(super) async fn within<T>(limit: Sleep, work: impl Future<Output = T>) -> Option<T> {
    let (mut limit, mut work) = (pin!(limit), pin!(work));
    poll_fn(|cx| {
        if let Poll::Ready(done) = work.as_mut().poll(cx) {
            return Poll::Ready(Some(done));
        }
        limit.as_mut().poll(cx).map(|()| None)
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::{pending, ready};

    #[tokio::test]
    async fn work_that_is_done_wins_over_a_limit_that_has_passed() {
        let passed = || Sleep::new(ready(()));
        assert_eq!(within(passed(), ready(1)).await, Some(1));
        assert_eq!(within(passed(), pending::<u8>()).await, None);
    }
}
