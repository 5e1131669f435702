//! Splitting texts into tokens, beside the crate `tokenizers`, on one thread.
//!
//! `WEIGHBRIDGE_TOKENIZERS` names `tokenizer.json` files, separated by commas. Nothing is measured without it.

use std::time::{Duration, Instant};

use tokenizers::Tokenizer;
use weighbridge_reference::TextTokens;

/// Rounds in turn, the least of which counts.
const ROUNDS: usize = 7;

/// Prose, code, and a text in many scripts: the last repeats, the others are this repository's.
const TEXTS: [(&str, &str); 3] = [
    ("prose", concat!(include_str!("../../DESIGN.md"), include_str!("../../docs/performance.md"))),
    ("code", concat!(include_str!("../../src/lib.rs"), include_str!("tokens.rs"))),
    (
        "scripts",
        "Straße, naïve façade. Привет, мир! 今天天气很好，我们去公园吧。日本語のテキスト。안녕하세요! مرحبا بالعالم. \
         नमस्ते दुनिया. สวัสดีชาวโลก 👨‍👩‍👧‍👦 1,234.56   €\n\t",
    ),
];

fn main() {
    let Ok(paths) = std::env::var("WEIGHBRIDGE_TOKENIZERS") else {
        return println!("WEIGHBRIDGE_TOKENIZERS names no tokenizer.json");
    };
    println!(
        "| tokenizer | text | bytes | ours, MB/s | tokenizers, MB/s | speed-up |\n|---|---|---|---|---|---|"
    );
    for path in paths.split(',') {
        let json = std::fs::read(path).expect("a file");
        let ours = TextTokens::parse(&json).expect("a tokenizer");
        let mut theirs = Tokenizer::from_bytes(&json).expect("a tokenizer");
        theirs.with_padding(None).with_truncation(None).expect("no truncation");
        for (name, text) in TEXTS {
            for bytes in [100, 1_000, 10_000, 100_000, 1_000_000] {
                let text = long(text, bytes);
                let ids = ours.of(&text).expect("tokens");
                assert_eq!(ids, theirs.encode(&*text, true).expect("tokens").get_ids());
                let (mut own, mut peer) = (Duration::MAX, Duration::MAX);
                for _ in 0..ROUNDS {
                    own = own.min(time(bytes, || drop(ours.of(&text))));
                    peer = peer.min(time(bytes, || drop(theirs.encode(&*text, true))));
                }
                let speed = |time: Duration| text.len() as f64 / time.as_secs_f64() / 1e6;
                let (own, peer) = (speed(own), speed(peer));
                println!(
                    "| {path} | {name} | {bytes} | {own:.1} | {peer:.1} | {:.1} |",
                    own / peer
                );
            }
        }
    }
}

/// The text, repeated or cut to about so many bytes.
fn long(text: &str, bytes: usize) -> String {
    let mut long = text.repeat(bytes.div_ceil(text.len()));
    long.truncate((0..=bytes).rev().find(|end| long.is_char_boundary(*end)).unwrap_or_default());
    long
}

/// The mean time of a call, of as many as 100 kB take.
fn time(bytes: usize, call: impl Fn()) -> Duration {
    let calls = (100_000 / bytes).max(1) as u32;
    let begin = Instant::now();
    (0..calls).for_each(|_| call());
    begin.elapsed() / calls
}
