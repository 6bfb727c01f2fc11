//! A limit on work.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

/// The work's result, or nothing when the limit passes first. Work that is done when the limit
/// passes counts as done. Both are pinned by the caller, for what is moved in here would be kept twice.
pub(crate) fn within<T>(
    mut limit: Pin<&mut impl Future<Output = ()>>,
    mut work: Pin<&mut impl Future<Output = T>>,
) -> impl Future<Output = Option<T>> {
    poll_fn(move |cx| {
        if let Poll::Ready(done) = work.as_mut().poll(cx) {
            return Poll::Ready(Some(done));
        }
        limit.as_mut().poll(cx).map(|()| None)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::{pending, ready};
    use std::pin::pin;

    #[tokio::test]
    async fn work_that_is_done_wins_over_a_limit_that_has_passed() {
        assert_eq!(within(pin!(ready(())), pin!(ready(1))).await, Some(1));
        assert_eq!(within(pin!(ready(())), pin!(pending::<u8>())).await, None);
    }
}
