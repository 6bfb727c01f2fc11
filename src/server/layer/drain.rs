//! Reading a body, within bounds.

use std::pin::{Pin, pin};
use std::time::Duration;

use bytes::{Buf, Bytes};
use http_body::Body;
use http_body_util::BodyExt;

use super::body::Gathered;
use crate::clock::Clock;

/// So much of a body that is refused is read, so that its client hears why before the connection closes: one
/// that is still sending may not look.
pub(super) const DRAIN_BYTES: u64 = 32 << 20;
/// And for so long.
pub(super) const DRAIN_TIME: Duration = Duration::from_secs(5);

/// Why there is no whole body.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unread {
    TooLarge,
    Incomplete,
}

/// The whole body, if it has at most so many bytes. What is declared is believed only to refuse it.
pub(super) async fn read<B>(mut body: Pin<&mut B>, limit: usize) -> Result<Bytes, Unread>
where
    B: Body,
{
    if body.size_hint().lower() > limit as u64 {
        return Err(Unread::TooLarge);
    }
    let mut gathered = Gathered::default();
    while let Some(frame) = body.frame().await {
        let Ok(mut data) = frame.map_err(|_| Unread::Incomplete)?.into_data() else { continue };
        if data.remaining() > limit - gathered.len() {
            return Err(Unread::TooLarge);
        }
        gathered.push(data.copy_to_bytes(data.remaining()));
    }
    Ok(gathered.into_bytes())
}

/// Reads a body for nothing, as far as the bounds allow.
pub(super) async fn drain<B: Body>(mut body: Pin<&mut B>, clock: &dyn Clock) {
    if body.is_end_stream() {
        return;
    }
    let reading = async {
        let mut read: u64 = 0;
        while let Some(Ok(frame)) = body.frame().await {
            read += frame.data_ref().map_or(0, |data| data.remaining() as u64);
            if read > DRAIN_BYTES {
                return;
            }
        }
    };
    tokio::select! {
        () = reading => {}
        () = pin!(clock.timer(DRAIN_TIME)) => {}
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::convert::Infallible;
    use std::task::{Context, Poll};

    use http_body::Frame;

    use super::*;

    /// Frames without a declared length; how many were taken can be seen.
    struct Frames(VecDeque<Result<&'static str, ()>>);

    impl Body for Frames {
        type Data = Bytes;
        type Error = ();

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, ()>>> {
            let next = self.0.pop_front();
            Poll::Ready(next.map(|next| next.map(|text| Frame::data(Bytes::from(text)))))
        }
    }

    fn frames(frames: &[Result<&'static str, ()>]) -> Frames {
        Frames(frames.iter().copied().collect())
    }

    /// O-22
    #[tokio::test]
    async fn the_limit_is_on_the_bytes_that_are_read() {
        for (sent, expected) in [
            (&[][..], Ok("")),
            (&[Ok("abcd")], Ok("abcd")),
            (&[Ok("ab"), Ok(""), Ok("cd")], Ok("abcd")),
            (&[Ok("abcde")], Err(Unread::TooLarge)),
            (&[Ok("ab"), Ok("cd"), Ok("e")], Err(Unread::TooLarge)),
            (&[Ok("ab"), Err(())], Err(Unread::Incomplete)),
        ] {
            let read = read(pin!(frames(sent)), 4).await;
            assert_eq!(read, expected.map(Bytes::from), "{sent:?}");
        }
        let declared = http_body_util::Full::<Bytes>::new(Bytes::from("abcde"));
        let mut declared = pin!(declared);
        assert_eq!(read(declared.as_mut(), 4).await, Err(Unread::TooLarge));
        let _: Result<_, Infallible> = declared.frame().await.expect("it was not read");
    }
}
