//! Full-jitter exponential backoff, on top of a floor that the server asked for.

use std::time::Duration;

use rand::{Rng, RngExt};

/// The ceiling of the jitter before retry `n` (0 for the first): `min(cap, base·2ⁿ)`, saturating.
///
/// ```
/// use std::time::Duration;
/// let (base, cap) = (Duration::from_millis(500), Duration::from_secs(8));
/// assert_eq!(post_once::retry::ceiling(base, cap, 0), base);
/// assert_eq!(post_once::retry::ceiling(base, cap, 3), Duration::from_secs(4));
/// assert_eq!(post_once::retry::ceiling(base, cap, u32::MAX), cap);
/// ```
#[must_use]
pub fn ceiling(base: Duration, cap: Duration, n: u32) -> Duration {
    let (base, cap) = (base.as_nanos(), cap.as_nanos());
    let overflows = base != 0 && n >= base.leading_zeros();
    let doubled = if overflows { cap } else { base.checked_shl(n).unwrap_or(0) };
    from_nanos(doubled.min(cap))
}

/// A wait before the next attempt: at least `floor`, at most `floor + spread`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delay {
    /// What the server asked for, or nothing.
    pub floor: Duration,
    /// The ceiling of the jitter on top.
    pub spread: Duration,
}

impl Delay {
    /// Draws the wait: uniform in `[floor, floor + spread]`, saturating.
    pub fn draw(&self, rng: &mut (impl Rng + ?Sized)) -> Duration {
        self.floor.saturating_add(uniform(self.spread, rng))
    }
}

/// Uniform in `[0, upper]`, to the nanosecond.
fn uniform(upper: Duration, rng: &mut (impl Rng + ?Sized)) -> Duration {
    from_nanos(rng.random_range(0..=upper.as_nanos()))
}

/// The duration of so many nanoseconds, which must be those of some duration.
fn from_nanos(nanos: u128) -> Duration {
    const PER_SECOND: u128 = 1_000_000_000;
    let seconds = u64::try_from(nanos / PER_SECOND).expect("no more than a duration's seconds");
    let rest = u32::try_from(nanos % PER_SECOND).expect("a remainder below 10⁹ fits");
    Duration::new(seconds, rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::{SeedableRng, rngs::SmallRng};

    // O-12.
    #[test]
    fn cap_below_base_is_the_ceiling_for_every_attempt_number() {
        let (base, cap) = (Duration::from_secs(1), Duration::from_millis(10));
        for n in (0..=200).chain([u32::MAX]) {
            assert_eq!(ceiling(base, cap, n), cap, "n = {n}");
        }
    }

    // O-12.
    #[test]
    fn largest_durations_do_not_overflow() {
        let rng = &mut SmallRng::seed_from_u64(1);
        for n in (0..=200).chain([u32::MAX]) {
            let spread = ceiling(Duration::MAX, Duration::MAX, n);
            assert_eq!(spread, Duration::MAX);
            let wait = Delay { floor: Duration::MAX, spread }.draw(rng);
            assert_eq!(wait, Duration::MAX);
            assert!(ceiling(Duration::from_nanos(1), Duration::MAX, n) > Duration::ZERO);
        }
    }

    #[test]
    fn a_zero_base_never_waits() {
        assert_eq!(ceiling(Duration::ZERO, Duration::MAX, u32::MAX), Duration::ZERO);
    }

    proptest! {
        // O-12: the ceiling never shrinks as n grows, and never passes the cap.
        #[test]
        fn ceiling_is_monotonic_and_capped(base in any::<u64>(), cap in any::<u64>(), n in any::<u32>()) {
            let (base, cap) = (Duration::from_nanos(base), Duration::from_nanos(cap));
            prop_assert!(ceiling(base, cap, n) <= cap);
            prop_assert!(ceiling(base, cap, n) <= ceiling(base, cap, n.saturating_add(1)));
        }

        // O-12: uniform up to the ceiling for all n, and still spread out at the cap: every tenth
        // of [floor, floor + ceiling] is met about equally often.
        #[test]
        fn jitter_is_uniform_up_to_its_ceiling(n in 0u32..64, floor in 0u64..10_000, seed in any::<u64>()) {
            let spread = ceiling(Duration::from_millis(500), Duration::from_secs(8), n);
            let delay = Delay { floor: Duration::from_millis(floor), spread };
            let rng = &mut SmallRng::seed_from_u64(seed);
            let mut tenths = [0u32; 10];
            const DRAWS: u32 = 5_000;
            for _ in 0..DRAWS {
                let wait = delay.draw(rng);
                prop_assert!(wait >= delay.floor && wait <= delay.floor + spread);
                let share = (wait - delay.floor).as_secs_f64() / spread.as_secs_f64();
                tenths[((share * 10.0) as usize).min(9)] += 1;
            }
            // 500 expected per tenth, standard deviation 21: six of them either way.
            prop_assert!(tenths.iter().all(|n| (370..=630).contains(n)), "{tenths:?}");
        }
    }
}
