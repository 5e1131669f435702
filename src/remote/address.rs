//! Addresses, taken apart and escaped.

/// Scheme, host and port of an address.
pub(super) fn origin(address: &str) -> &str {
    let host = address.find("://").map_or(0, |at| at + 3);
    let end = address.get(host..).and_then(|rest| rest.find(['/', '?', '#']));
    address.get(..end.map_or(address.len(), |end| host + end)).unwrap_or(address)
}

/// The address to which `to` leads from `from` (RFC 3986, 5.2, without dot segments).
pub(super) fn joined(from: &str, to: &str) -> String {
    if to.contains("://") {
        return to.to_owned();
    }
    let scheme = from.split("//").next().unwrap_or_default();
    if let Some(rest) = to.strip_prefix("//") {
        return format!("{scheme}//{rest}");
    }
    let origin = origin(from);
    if to.starts_with('/') {
        return format!("{origin}{to}");
    }
    let path = from.split(['?', '#']).next().unwrap_or(from);
    let folder = path.rfind('/').filter(|at| *at >= origin.len());
    format!("{}/{to}", folder.and_then(|at| path.get(..at)).unwrap_or(origin))
}

/// A path with what has a meaning in addresses escaped; slashes stay.
pub(super) fn escaped(path: &str) -> String {
    strictly_escaped(path, b"/:@")
}

/// Text with everything escaped but letters, digits, `-._~` and the bytes of `keep`. Signatures want
/// it so.
pub(super) fn strictly_escaped(text: &str, keep: &[u8]) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || keep.contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// Text whose escapes are replaced by what they stand for.
pub(super) fn unescaped(text: &str) -> String {
    let mut out = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
        let mut ahead = rest.clone();
        match (byte, digit(ahead.next()), digit(ahead.next())) {
            (b'%', Some(high), Some(low)) => {
                out.push(u8::try_from(high * 16 + low).unwrap_or(b'?'));
                rest = ahead;
            }
            (byte, ..) => out.push(byte),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_lead_where_the_standard_says() {
        let from = "https://host:8/a/b.gguf?x=/y";
        let cases = [
            ("https://cdn/c", "https://cdn/c"),
            ("//cdn/c", "https://cdn/c"),
            ("/c?d", "https://host:8/c?d"),
            ("c", "https://host:8/a/c"),
        ];
        for (to, expected) in cases {
            assert_eq!(joined(from, to), expected);
        }
        assert_eq!(joined("https://host", "c"), "https://host/c");
    }

    #[test]
    fn the_origin_ends_before_the_path() {
        for address in ["https://host", "https://host/", "https://host?x", "https://host/a//b"] {
            assert_eq!(origin(address), "https://host");
        }
        assert_ne!(origin("https://host.evil/"), origin("https://host"));
        assert_ne!(origin("https://host@evil/"), origin("https://host"));
    }

    #[test]
    fn names_are_escaped() {
        assert_eq!(escaped("a b/ü#?.gguf"), "a%20b/%C3%BC%23%3F.gguf");
    }

    #[test]
    fn escapes() {
        assert_eq!(strictly_escaped("a b/ü~:@", b"/"), "a%20b/%C3%BC~%3A%40");
        assert_eq!(unescaped("a%20b/%C3%BC~%3A%4"), "a b/ü~:%4");
    }
}
