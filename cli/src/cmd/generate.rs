//! `generate`: the text that continues a prompt.

use std::io::Write;
use std::time::{Duration, Instant};

use weighbridge::tokenizer::Detokenizer;
use weighbridge::{Error, ErrorKind, Model, ops};
use weighbridge_reference::{ChatTemplate, Message, TextTokens, likeliest, probabilities};

use super::Done;
use super::logits::{encode, read_npy};
use crate::args::run::Generate;
use crate::print::{bytes, plural};
use crate::{Status, Stop, device, note};

pub(crate) fn run(args: &Generate) -> Done {
    let model = args.open.runnable(&args.path)?;
    let detokenizer = if args.print_ids { None } else { Some(detokenizer(&model)?) };
    let mut text = detokenizer.as_ref().map(Detokenizer::stream);
    let ends = if args.ignore_eos { Vec::new() } else { ends(&model)? };
    let reference = device::reference(&args.runner, &model)?;
    let mut tokens = prompt(args, &model)?;
    let mut given = tokens.len();
    let mut session = match (&args.features, &reference.plan().text_encoder) {
        (Some(path), _) => reference.session_of(&reference.encode_sound(&read_npy(path)?)?)?,
        (None, Some(text)) => {
            let prompted = args.prompt.is_some();
            let read =
                if prompted { std::mem::take(&mut tokens) } else { args.encoder_ids.clone() };
            given = read.len();
            if tokens.is_empty() && !read.is_empty() {
                tokens.push(text.start);
            }
            reference.session_of(&encode(&reference, &read)?)?
        }
        (None, None) => reference.session(),
    };
    let mut random = Random(args.seed);
    let mut out = std::io::stdout().lock();
    let mut found = Vec::new();
    if tokens.is_empty() {
        return Err(Stop::Usage(
            "there is nothing to continue: the prompt has no tokens".to_owned(),
        ));
    }
    let start = Instant::now();
    let mut first = None;
    while found.len() < args.max_tokens {
        let logits = session.next(&tokens)?;
        let token = match args.temp > 0.0 {
            true => drawn(&logits, args.temp, args.top_p, &mut random),
            false => likeliest(&logits)?,
        };
        first.get_or_insert_with(|| start.elapsed());
        if ends.contains(&token) {
            break;
        }
        found.push(token);
        tokens = vec![token];
        if let Some(text) = &mut text {
            out.write_all(text.push(token).as_bytes())?;
            out.flush()?;
        }
    }
    match text {
        Some(text) => writeln!(out, "{}", text.finish())?,
        None => {
            let ids: Vec<String> = found.iter().map(u32::to_string).collect();
            writeln!(out, "{}", ids.join(","))?;
        }
    }
    if detokenizer.is_some() {
        note(&speed(given, found.len(), first.unwrap_or_default(), start.elapsed()));
    }
    Ok(Status::Fine)
}

/// The tokens to continue.
fn prompt(args: &Generate, model: &Model) -> Result<Vec<u32>, Stop> {
    let Some(prompt) = &args.prompt else { return Ok(args.ids.clone()) };
    let tokens = TextTokens::new(model)?;
    if !args.chat {
        // One that cannot be read is reported when it is used.
        if ChatTemplate::new(model).is_ok_and(|template| template.is_some()) {
            note("the prompt is continued as it is; --chat puts it into the model's chat template");
        }
        return Ok(tokens.of(prompt)?);
    }
    let template = ChatTemplate::new(model)?.ok_or_else(|| {
        let error = Error::new(ErrorKind::Unsupported, "the model has no chat template");
        error.advise("leave --chat out to continue the prompt as it is").in_file(model.path())
    })?;
    let message =
        |role: &str, content: &String| Message { role: role.to_owned(), content: content.clone() };
    let system = args.system.iter().map(|system| message("system", system));
    let messages: Vec<Message> = system.chain([message("user", prompt)]).collect();
    Ok(tokens.of_rendered(&template.render(&messages)?)?)
}

/// `7 prompt tokens, the first token after 0.04 s, 128 tokens at 41.5 a second, peak memory 36.1 MiB`
fn speed(given: usize, found: usize, first: Duration, all: Duration) -> String {
    let mut text = format!(
        "{}, the first token after {:.2} s",
        plural(given, "prompt token"),
        first.as_secs_f64()
    );
    let rest = (all - first).as_secs_f64();
    if found > 1 && rest > 0.0 {
        text +=
            &format!(", {} at {:.1} a second", plural(found, "token"), (found - 1) as f64 / rest);
    }
    if let Some(peak) = ops::peak_memory() {
        text += &format!(", peak memory {}", bytes(peak));
    }
    text
}

/// The text of the model's tokens.
pub(super) fn detokenizer(model: &Model) -> Result<Detokenizer, Stop> {
    let tokenizer = model.tokenizer()?.ok_or_else(|| {
        let fault = "the model has no tokenizer, so its tokens have no text";
        let error = Error::new(ErrorKind::Unsupported, fault).advise("give --print-ids");
        error.in_file(model.path())
    })?;
    let advise = |error: Error| match error.kind() {
        ErrorKind::Unsupported => error.advise("give --print-ids"),
        _ => error,
    };
    Ok(tokenizer.detokenizer().map_err(|error| advise(error.in_file(model.path())))?)
}

/// Tokens that end a text: those of the generation settings and of the tokenizer.
fn ends(model: &Model) -> Result<Vec<u32>, Stop> {
    let settings = model.generation_config()?.and_then(|settings| settings.eos);
    let mut ends = settings.map_or_else(Vec::new, |eos| eos.value);
    if let Some(tokenizer) = model.tokenizer()? {
        ends.extend(["eos", "eot"].iter().filter_map(|name| tokenizer.special(name)));
    }
    Ok(ends)
}

/// Draws a token by its probability, from the likeliest ones whose probabilities add up to `share`.
fn drawn(logits: &[f32], temperature: f32, share: f32, random: &mut Random) -> u32 {
    let scaled: Vec<f32> = logits.iter().map(|logit| logit / temperature).collect();
    let mut all: Vec<(u32, f64)> =
        (0u32..).zip(probabilities(&scaled).into_iter().map(f64::from)).collect();
    let mut total = 1.0;
    if share < 1.0 {
        all.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        let mut sum = 0.0;
        all.retain(|(_, probability)| {
            let before = sum;
            sum += probability;
            before < f64::from(share)
        });
        total = all.iter().map(|(_, probability)| probability).sum();
    }
    let mut rest = random.next() * total;
    let mut last = 0;
    for (token, probability) in all {
        last = token;
        rest -= probability;
        if rest < 0.0 {
            break;
        }
    }
    last
}

/// Numbers between 0 and 1 (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn a_run_says_what_it_took() {
        let second = Duration::from_secs(1);
        let text = speed(7, 3, second, 2 * second);
        let (start, peak) = text.rsplit_once(", ").expect("peak memory");
        assert_eq!(
            start,
            "7 prompt tokens, the first token after 1.00 s, 3 tokens at 2.0 a second"
        );
        assert!(peak.starts_with("peak memory ") && peak.ends_with("iB"), "{peak}");
    }

    #[test]
    fn draws_follow_the_probabilities() {
        let mut random = Random(1);
        let logits = [0.0, 3f32.ln(), f32::NEG_INFINITY];
        let second = (0..4000).filter(|_| drawn(&logits, 1.0, 1.0, &mut random) == 1).count();
        assert!((2800..3200).contains(&second), "{second} of 4000, but 3000 are likely");
        assert!((0..100).all(|_| drawn(&logits, 1.0, 1.0, &mut random) != 2));
        // The likeliest token alone has three quarters.
        assert!((0..100).all(|_| drawn(&logits, 1.0, 0.75, &mut random) == 1));
        let first = (0..4000).filter(|_| drawn(&logits, 1.0, 0.76, &mut random) == 0).count();
        assert!((800..1200).contains(&first), "{first} of 4000, but 1000 are likely");
    }
}
