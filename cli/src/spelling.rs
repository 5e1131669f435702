//! Names that were meant by misspelled ones.

/// The name nearest to a word, if slips of the fingers explain the distance: one in four letters, none in fewer.
pub(crate) fn nearest<N>(
    word: &str,
    names: impl Iterator<Item = N>,
    distance: impl Fn(&N) -> usize,
) -> Option<N> {
    let most = word.chars().count() / 4;
    let near = names.map(|name| (distance(&name), name)).filter(|(slips, _)| *slips <= most);
    near.min_by_key(|(slips, _)| *slips).map(|(_, name)| name)
}

/// The number of characters to insert, delete, replace, or swap with the next, to make one text of
/// the other.
pub(crate) fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let cell = |row: &[usize], place: usize| row.get(place).copied().unwrap_or(usize::MAX);
    let (mut before, mut last): (Vec<usize>, Option<char>) = (Vec::new(), None);
    let mut above: Vec<usize> = (0..=to.len()).collect();
    for (line, one) in from.chars().enumerate() {
        let mut row = vec![line + 1];
        let mut last_other = None;
        for (place, other) in to.iter().copied().enumerate() {
            let replaced = cell(&above, place) + usize::from(one != other);
            let inserted = cell(&row, place).min(cell(&above, place + 1)) + 1;
            let swapped = match (last == Some(other) && last_other == Some(one), place) {
                (true, 1..) => cell(&before, place - 1).saturating_add(1),
                _ => usize::MAX,
            };
            row.push(replaced.min(inserted).min(swapped));
            last_other = Some(other);
        }
        (before, above, last) = (above, row, Some(one));
    }
    above.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        for (a, b, expected) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("name", "name", 0),
            ("nmae", "name", 1),
            ("kitten", "sitting", 3),
            ("context_lenght", "context_length", 1),
        ] {
            assert_eq!(distance(a, b), expected, "{a} {b}");
            assert_eq!(distance(b, a), expected, "{b} {a}");
        }
    }
}
