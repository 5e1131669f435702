//! Numbers in the names of tensors.

/// The layer of a name, and the name with `{n}` for it.
pub(crate) fn layer_of(name: &str) -> Option<(u64, String)> {
    let parts: Vec<&str> = name.split('.').collect();
    let place = parts.iter().position(|part| part.parse::<u64>().is_ok())?;
    let layer = parts.get(place)?.parse().ok()?;
    let rest = (0..).zip(parts).map(|(at, part)| if at == place { "{n}" } else { part });
    Some((layer, rest.collect::<Vec<_>>().join(".")))
}

/// A key that sorts layer 2 before layer 10.
pub(crate) fn natural(name: &str) -> Vec<(u64, &str)> {
    let key = |part| match str::parse::<u64>(part) {
        Ok(number) => (number, ""),
        Err(_) => (u64::MAX, part),
    };
    name.split('.').map(key).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_found_and_sorted() {
        assert_eq!(
            layer_of("blk.12.attn_q.weight"),
            Some((12, "blk.{n}.attn_q.weight".to_owned()))
        );
        assert_eq!(layer_of("output.weight"), None);
        let mut names = ["a.10.x", "a.2.x", "b", "a.2.w"];
        names.sort_by(|a, b| natural(a).cmp(&natural(b)));
        assert_eq!(names, ["a.2.w", "a.2.x", "a.10.x", "b"]);
    }
}
