//! Numbers that look random, and are the same in every run.

/// The number that is added to the state each time.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The state after so many numbers.
pub(super) fn after(state: u64, count: u64) -> u64 {
    state.wrapping_add(STEP.wrapping_mul(count))
}

/// The next number from 0 to below 1 (splitmix64).
pub(super) fn draw(state: &mut u64) -> f64 {
    *state = after(*state, 1);
    let mut bits = *state;
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    #[expect(clippy::cast_precision_loss, reason = "53 bits, which an f64 holds")]
    let unit = ((bits ^ (bits >> 31)) >> 11) as f64 / (1u64 << 53) as f64;
    unit
}

/// A number that depends on a text and on a number, the same in every run (FNV-1a).
pub(super) fn seed_of(text: &str, number: u64) -> u64 {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    text.bytes().chain(number.to_le_bytes()).fold(0xcbf2_9ce4_8422_2325, mix)
}
