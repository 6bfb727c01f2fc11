//! The retention that a server advertises, as an ISO 8601 duration.

use std::time::Duration;

/// Reads a duration of days, hours, minutes and seconds in whole numbers: `P1D`, `PT30M`,
/// `P1DT12H`. Years and months have no fixed length; they and everything else are `None`. More
/// than fits is as long as it can be.
pub(super) fn parse(text: &str) -> Option<Duration> {
    let text = text.trim().to_ascii_uppercase();
    let (days, time) = match text.strip_prefix('P')?.split_once('T') {
        Some((days, time)) if !time.is_empty() => (days, time),
        Some(_) => return None,
        None => (&text[1..], ""),
    };
    if days.is_empty() && time.is_empty() {
        return None;
    }
    let days = sum(days, &[('D', 86_400)])?;
    let time = sum(time, &[('H', 3_600), ('M', 60), ('S', 1)])?;
    Some(Duration::from_secs(days.saturating_add(time)))
}

/// Adds up numbers that each carry one of these units, in their order and each at most once.
fn sum(mut text: &str, units: &[(char, u64)]) -> Option<u64> {
    let mut total = 0_u64;
    for (unit, seconds) in units {
        let Some((number, rest)) = text.split_once(*unit) else { continue };
        if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let number = number.parse().unwrap_or(u64::MAX);
        total = total.saturating_add(seconds.saturating_mul(number));
        text = rest;
    }
    text.is_empty().then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_hours_minutes_and_seconds_are_read_and_nothing_else() {
        for (text, seconds) in [
            ("P1D", Some(86_400)),
            ("PT30M", Some(1_800)),
            (" pt30m ", Some(1_800)),
            ("PT36H", Some(129_600)),
            ("P1DT2H3M4S", Some(93_784)),
            ("PT2H4S", Some(7_204)),
            ("PT0S", Some(0)),
            ("P99999999999999999999D", Some(u64::MAX)),
            ("", None),
            ("P", None),
            ("PT", None),
            ("P1DT", None),
            ("P1M", None),
            ("P1Y", None),
            ("P1W", None),
            ("PD", None),
            ("PT1", None),
            ("PT1M2H", None),
            ("PT1H1H", None),
            ("PT1.5S", None),
            ("PT-1S", None),
            ("-PT1S", None),
            ("1D", None),
            ("86400", None),
            ("PÄ", None),
        ] {
            assert_eq!(parse(text), seconds.map(Duration::from_secs), "{text:?}");
        }
    }
}
