//! `generate`: the text that continues a prompt.

use std::io::Write;

use weighbridge::{Error, ErrorKind, Model};
use weighbridge_reference::{Reference, TextTokens, TokenTexts, likeliest, probabilities};

use super::Done;
use super::logits::read_npy;
use crate::args::run::Generate;
use crate::{Status, Stop, remark};

pub(crate) fn run(args: &Generate) -> Done {
    let model = args.open.options().open(&args.path)?;
    remark(&model);
    let texts = if args.print_ids { None } else { Some(texts(&model)?) };
    let ends = if args.ignore_eos { Vec::new() } else { ends(&model)? };
    let reference = Reference::new(&model)?;
    let mut session = match &args.features {
        Some(path) => reference.session_of(&reference.encode_sound(&read_npy(path)?)?)?,
        None => reference.session(),
    };
    let mut random = Random(args.seed);
    let mut out = std::io::stdout().lock();
    let mut found = Vec::new();
    let mut tokens = match &args.prompt {
        Some(prompt) => TextTokens::new(&model)?.of(prompt)?,
        None => args.ids.clone(),
    };
    if tokens.is_empty() {
        return Err(Stop::Usage(
            "there is nothing to continue: the prompt has no tokens".to_owned(),
        ));
    }
    while found.len() < args.max_tokens {
        let logits = session.next(&tokens)?;
        let token = match args.temp > 0.0 {
            true => drawn(&logits, args.temp, &mut random),
            false => likeliest(&logits)?,
        };
        if ends.contains(&token) {
            break;
        }
        found.push(token);
        tokens = vec![token];
        if let Some(texts) = &texts {
            out.write_all(texts.of(token))?;
            out.flush()?;
        }
    }
    if texts.is_none() {
        let ids: Vec<String> = found.iter().map(u32::to_string).collect();
        write!(out, "{}", ids.join(","))?;
    }
    writeln!(out)?;
    Ok(Status::Fine)
}

fn texts(model: &Model) -> Result<TokenTexts, Stop> {
    let tokenizer = model.tokenizer()?.ok_or_else(|| {
        let fault = "the model has no tokenizer, so its tokens have no text";
        let error = Error::new(ErrorKind::Unsupported, fault).advise("give --print-ids");
        error.in_file(model.path())
    })?;
    Ok(TokenTexts::new(&tokenizer))
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

/// Draws a token by its probability.
fn drawn(logits: &[f32], temperature: f32, random: &mut Random) -> u32 {
    let scaled: Vec<f32> = logits.iter().map(|logit| logit / temperature).collect();
    let mut rest = random.next();
    let mut last = 0;
    for (token, probability) in (0u32..).zip(probabilities(&scaled)) {
        last = token;
        rest -= f64::from(probability);
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
    fn draws_follow_the_probabilities() {
        let mut random = Random(1);
        let logits = [0.0, 3f32.ln(), f32::NEG_INFINITY];
        let second = (0..4000).filter(|_| drawn(&logits, 1.0, &mut random) == 1).count();
        assert!((2800..3200).contains(&second), "{second} of 4000, but 3000 are likely");
        assert!((0..100).all(|_| drawn(&logits, 1.0, &mut random) != 2));
    }
}
