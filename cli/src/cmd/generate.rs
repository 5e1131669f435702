//! `generate`: the text that continues a prompt.

use std::io::Write;
use std::time::{Duration, Instant};

use weighbridge::tokenizer::Detokenizer;
use weighbridge::{Error, ErrorKind, Model, ops};
use weighbridge_reference::{ChatTemplate, Message, TextTokens};

use super::Done;
use super::logits::{encode, read_npy};
use super::sampling::{Sampler, StopWords, Stored};
use crate::args::run::Generate;
use crate::print::{Flow, bytes, plural, stdout_columns};
use crate::{Status, Stop, device, note};

pub(crate) fn run(args: &Generate) -> Done {
    let model = args.open.runnable(&args.path)?;
    device::note_missing_head(&model);
    let stored = Stored::of(&model)?;
    let mut stop = StopWords::new(if args.stop.is_empty() { &stored.stop } else { &args.stop });
    let has_texts = !args.print_ids || !stop.is_empty();
    let detokenizer = has_texts.then(|| detokenizer(&model)).transpose()?;
    let mut text = detokenizer.as_ref().map(Detokenizer::stream);
    let ends = if args.ignore_eos { Vec::new() } else { model.end_tokens()? };
    let reference = device::reference(&args.runner, &model)?;
    let mut tokens = prompt(args, &model, &stored)?;
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
    let mut sampler = Sampler::new(args, &stored);
    let most = most(args, &stored, &model, tokens.len());
    let mut out = std::io::stdout().lock();
    let mut flow = Flow::new(stdout_columns());
    let mut found = Vec::new();
    if tokens.is_empty() {
        return Err(Stop::Usage(
            "there is nothing to continue: the prompt has no tokens".to_owned(),
        ));
    }
    if let Some(context) = ops::summarize(&model).context_length.filter(|it| given as u64 > *it) {
        note(&format!("the prompt has {given} tokens, but the model was trained for {context}"));
    }
    let start = Instant::now();
    let mut first = None;
    while (found.len() as u64) < most && !stop.is_found() {
        let token = sampler.token(&session.next(&tokens)?)?;
        first.get_or_insert_with(|| start.elapsed());
        if ends.contains(&token) {
            break;
        }
        found.push(token);
        tokens = vec![token];
        if let Some(text) = &mut text {
            let shown = stop.before(&text.push(token));
            if !args.print_ids {
                out.write_all(flow.push(&shown).as_bytes())?;
                out.flush()?;
            }
        }
    }
    match text.filter(|_| !args.print_ids) {
        Some(text) => {
            let rest = flow.push(&stop.rest(&text.finish()));
            writeln!(out, "{rest}{}", flow.flush())?;
        }
        None => {
            let ids: Vec<String> = found.iter().map(u32::to_string).collect();
            writeln!(out, "{}", ids.join(","))?;
        }
    }
    if !args.print_ids {
        note(&speed(given, found.len(), first.unwrap_or_default(), start.elapsed()));
    }
    Ok(Status::Fine)
}

/// The most tokens to print. Without a limit, what the model's context has room for.
fn most(args: &Generate, stored: &Stored, model: &Model, given: usize) -> u64 {
    const USUAL: u64 = 128;
    match args.max_tokens.or(stored.most).unwrap_or(USUAL) {
        u64::MAX => {
            let context = ops::summarize(model).context_length.unwrap_or(u64::MAX);
            context.saturating_sub(given as u64)
        }
        most => most,
    }
}

/// The tokens to continue.
fn prompt(args: &Generate, model: &Model, stored: &Stored) -> Result<Vec<u32>, Stop> {
    let Some(prompt) = &args.prompt else { return Ok(args.ids.clone()) };
    let tokens = TextTokens::new(model)?;
    let chats = args.chat || args.system.is_some();
    if !chats {
        stored.tell(false);
        // One that cannot be read is reported when it is used.
        if ChatTemplate::new(model).is_ok_and(|template| template.is_some()) {
            note("the prompt is continued as it is; --chat puts it into the model's chat template");
        }
        return Ok(tokens.of(prompt)?);
    }
    let advised = |error| {
        let advice = "`run generate` without --chat continues the prompt as it is";
        Error::from(error).advise(advice)
    };
    let Some(template) = ChatTemplate::new(model).map_err(advised)? else {
        let is_of_ollama = model.attachments().iter().any(|layer| layer.kind == "template");
        let fault = match is_of_ollama {
            true => {
                "the model has no chat template but Ollama's TEMPLATE, which is not applied here"
            }
            false => "the model has no chat template",
        };
        if args.system.is_some() {
            let error = Error::new(ErrorKind::Unsupported, fault);
            return Err(error.advise("leave the system prompt out").in_file(model.path()).into());
        }
        stored.tell(false);
        note(&format!("{fault}: the prompt is continued as it is"));
        return Ok(tokens.of(prompt)?);
    };
    stored.tell(true);
    let message =
        |role: &str, content: &String| Message { role: role.to_owned(), content: content.clone() };
    let system = args.system.as_ref().or(stored.system.as_ref());
    let earlier = stored.messages.iter().map(|(role, content)| message(role, content));
    let messages = system.into_iter().map(|system| message("system", system)).chain(earlier);
    let messages: Vec<Message> = messages.chain([message("user", prompt)]).collect();
    let rendered = template.render(&messages).map_err(advised)?;
    Ok(tokens.of_rendered(&rendered)?)
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

/// The advice for a model without a tokenizer.
const BY_IDS: &str = "`--ids 1,2,3 --print-ids` continues tokens by their numbers";

/// The text of the model's tokens.
pub(super) fn detokenizer(model: &Model) -> Result<Detokenizer, Stop> {
    let tokenizer = model.tokenizer()?.ok_or_else(|| {
        let fault = "the model has no tokenizer, so its tokens have no text";
        let error = Error::new(ErrorKind::Unsupported, fault).advise(BY_IDS);
        error.in_file(model.path())
    })?;
    let advise = |error: Error| match error.kind() {
        ErrorKind::Unsupported => error.advise(BY_IDS),
        _ => error,
    };
    Ok(tokenizer.detokenizer().map_err(|error| advise(error.in_file(model.path())))?)
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
}
