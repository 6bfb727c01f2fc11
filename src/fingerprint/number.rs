//! JSON numbers in the form of RFC 8785 §3.2.2.3, compared digit by digit with what was written.

use std::borrow::Cow;

use serde::de::IgnoredAny;

/// So many digits always fit a double (2⁵³ has 16), and are its shortest form already.
const EXACT_DIGITS: usize = 15;

/// The shortest form of the double nearest to `token`, or nothing if that is another decimal value
/// or `token` is not a JSON number. `token` holds only characters that occur in numbers.
pub(super) fn canonical(token: &str) -> Option<Cow<'_, str>> {
    serde_json::from_str::<IgnoredAny>(token).ok()?;
    let digits = token.strip_prefix('-').unwrap_or(token);
    let is_integer = digits.bytes().all(|byte| byte.is_ascii_digit());
    if is_integer && digits.len() <= EXACT_DIGITS && token != "-0" {
        return Some(Cow::Borrowed(token));
    }
    let double: f64 = token.parse().ok().filter(|double: &f64| double.is_finite())?;
    let shortest = serde_json_canonicalizer::to_string(&double).ok()?;
    (Magnitude::read(token)? == Magnitude::read(&shortest)?).then_some(Cow::Owned(shortest))
}

/// digits × 10^exponent, with no zero at either end of the digits. The sign is left out: no number
/// but zero changes it on its way through a double.
#[derive(PartialEq, Eq)]
struct Magnitude {
    digits: String,
    exponent: i64,
}

impl Magnitude {
    /// The magnitude of a JSON number, or nothing if its exponent does not fit.
    fn read(number: &str) -> Option<Self> {
        let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
        let (integer, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all = [integer.trim_start_matches('-'), fraction].concat();
        let without_end = all.trim_end_matches('0');
        let digits = without_end.trim_start_matches('0');
        if digits.is_empty() {
            return Some(Self { digits: String::new(), exponent: 0 });
        }
        let shift = (all.len() - without_end.len()) as i64 - fraction.len() as i64;
        let exponent = exponent.parse::<i64>().ok()?.checked_add(shift)?;
        Some(Self { digits: digits.to_owned(), exponent })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_a_double_holds_get_its_shortest_form() {
        for (token, form) in [
            ("0", "0"),
            ("-0", "0"),
            ("-0.0e5", "0"),
            ("0e99999999999999999999", "0"),
            ("1", "1"),
            ("-120", "-120"),
            ("1.0", "1"),
            ("10e-1", "1"),
            ("0.1e+1", "1"),
            ("1E2", "100"),
            ("-1.50", "-1.5"),
            ("0.1", "0.1"),
            ("999999999999999", "999999999999999"),
            ("9007199254740992", "9007199254740992"),
            ("123456789012345680000", "123456789012345680000"),
            ("1000000000000000000000", "1e+21"),
            ("0.000001", "0.000001"),
            ("0.0000001", "1e-7"),
            ("5e-324", "5e-324"),
            ("1.7976931348623157e308", "1.7976931348623157e+308"),
        ] {
            assert_eq!(canonical(token).as_deref(), Some(form), "{token}");
        }
    }

    /// O-29: anything lossy is hashed as raw bytes.
    #[test]
    fn numbers_that_a_double_would_change_have_no_form() {
        for token in [
            "9007199254740993",
            "-9007199254740993",
            "9007199254740993.0",
            "1000000000000000000001",
            "0.10000000000000000001",
            "333333333.33333329",
            "1.0000000000000000000000000000000000001",
            "4.9406564584124654e-324",
            "1e-324",
            "1e-400",
            "1e400",
            "-1e400",
            "1e-9223372036854775808",
            "0.1e-9223372036854775808",
            "1e99999999999999999999",
            "1e-99999999999999999999",
        ] {
            assert_eq!(canonical(token), None, "{token}");
        }
    }

    #[test]
    fn what_is_not_a_number_has_no_form() {
        for token in ["", "-", "+1", "01", "-01", "1.", ".5", "1.e1", "1e", "1e+", "1-1", "1.2.3"] {
            assert_eq!(canonical(token), None, "{token}");
        }
    }
}
