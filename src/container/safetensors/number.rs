//! Numbers of a header, several digits at a time.

/// Parses digits up to the first other byte, without leading zeros.
#[inline(always)]
pub(super) fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    let (number, count) = digits(text)?;
    if count == 0 || (count > 1 && text.first() == Some(&b'0')) {
        return None;
    }
    let rest = text.get(count..)?;
    if count == 8 { long_number(number, rest) } else { Some((number, rest)) }
}

/// The value of the digits at the start of `text`, and how many they are, up to eight. They are read
/// as one word: each step joins neighbours, ones to pairs, pairs to fours, fours to eight.
#[inline(always)]
fn digits(text: &[u8]) -> Option<(u64, usize)> {
    let word = u64::from_le_bytes(*text.first_chunk()?);
    let digits = word ^ 0x3030_3030_3030_3030;
    // The high half of each byte that is not a digit: 0x3a to 0x3f carry into it, others have it.
    let others = (digits.wrapping_add(0x0606_0606_0606_0606) | digits) & 0xf0f0_f0f0_f0f0_f0f0;
    let count = others.trailing_zeros() / 8;
    // Zeros before the first digit, which is the lowest byte.
    let digits = digits.checked_shl(64 - 8 * count).unwrap_or(0);
    let pairs = (digits.wrapping_mul(10) + (digits >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs.wrapping_mul(100) + (pairs >> 16)) & 0x0000_ffff_0000_ffff;
    let number = (fours.wrapping_mul(10_000) + (fours >> 32)) & 0xffff_ffff;
    Some((number, count as usize))
}

/// Continues a number of eight digits with those that follow, as many as cannot overflow.
#[inline(always)]
fn long_number(start: u64, text: &[u8]) -> Option<(u64, &[u8])> {
    const POWERS: [u64; 8] = [1, 10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000];
    let (more, count) = digits(text)?;
    if let Some(power) = POWERS.get(count) {
        return Some((start * power + more, text.get(count..)?));
    }
    let (mut number, mut rest, mut digits) = (start, text, 8);
    while let Some((&byte @ b'0'..=b'9', tail)) = rest.split_first() {
        number = number.wrapping_mul(10).wrapping_add(u64::from(byte - b'0'));
        (rest, digits) = (tail, digits + 1);
    }
    (digits <= 19).then_some((number, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_as_the_standard_library_reads_them(
            value in any::<u64>(), shift in 0u32..64, tail in "[^0-9]{8}"
        ) {
            let value = value >> shift;
            let text = format!("{value}{tail}");
            let found = number(text.as_bytes());
            if value < 10u64.pow(19) {
                prop_assert_eq!(found, Some((value, tail.as_bytes())));
            } else {
                prop_assert_eq!(found, None);
            }
        }

        #[test]
        fn only_digits_are_digits(text in proptest::collection::vec(any::<u8>(), 0..24)) {
            let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
            if let Some((value, rest)) = number(&text) {
                prop_assert_eq!(rest.len(), text.len() - digits);
                let same = value.to_string().as_bytes() == &text[..digits];
                prop_assert!(same, "{} from {:?}", value, text);
            }
        }
    }
}
