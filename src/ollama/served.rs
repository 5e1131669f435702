//! The facts that Ollama's server determines about a stored model when it runs it: its
//! capabilities, and which template it uses (server/images.go of Ollama fb307609).

use super::go_template::GoTemplate;
use crate::container::ollama::{ConfigBlob, offers_tools, thinks};
use crate::engines::ollama::parser_reads;

/// The template that Ollama uses for a model.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Template {
    /// None: a renderer writes the prompt, or the prompt is used as it is.
    None,
    /// The layer with a template in Go's language.
    Go,
    /// The chat template of the GGUF file.
    Chat,
}

/// The facts on which a GGUF model's capabilities depend, besides its config and templates.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct GgufFacts<'f> {
    pub(crate) chat_template: &'f str,
    pub(crate) pools: bool,
    pub(crate) sees: bool,
    pub(crate) hears: bool,
    pub(crate) has_projector: bool,
    pub(crate) projector_hears: bool,
}

/// The capabilities that Ollama's server derives for a stored model (`capabilitiesForTemplate` of
/// server/images.go), in its order, and the template that it uses. `gguf` is `None` for a model of
/// tensor blobs.
pub(crate) fn shown_capabilities(
    config: &ConfigBlob,
    go_template: Option<&str>,
    gguf: Option<&GgufFacts<'_>>,
) -> (Vec<String>, Template) {
    let mut found = Found(Vec::new());
    found.0.clone_from(&config.capabilities);
    let is_gptoss = GPT_OSS.contains(&config.family.as_str());
    let harmony = is_gptoss
        && go_template.is_some_and(|text| text.contains("<|start|>") && text.contains("<|end|>"));
    let named = !config.renderer.is_empty() || !config.parser.is_empty();
    let parsed = go_template.and_then(|text| GoTemplate::parse(text).ok());
    let go = parsed.as_ref().map(go_capabilities).unwrap_or_default();
    let chat_template = gguf.map_or("", |facts| facts.chat_template);
    let chat = chat_capabilities(chat_template);
    let prefers_chat = !named
        && !harmony
        && !chat_template.is_empty()
        && go_template.is_some_and(|text| prefers_chat(chat_template, &chat, text, &go));
    let template = match (named || harmony, go_template) {
        (true, _) => Template::None,
        (false, Some(_)) if !prefers_chat => Template::Go,
        _ if !chat_template.is_empty() => Template::Chat,
        _ => Template::None,
    };
    if let Some(facts) = gguf {
        if template == Template::Chat {
            chat.iter().for_each(|name| found.add(name, true));
        }
        found.add("embedding", facts.pools);
        found.add("completion", !facts.pools);
        found.add("vision", facts.sees);
        found.add("audio", facts.hears);
        found.add("vision", facts.has_projector);
        found.add("audio", facts.projector_hears);
    }
    if go_template.is_some() && !prefers_chat {
        go.iter().for_each(|name| found.add(name, true));
    }
    let (tools, thinking) = parser_reads(&config.parser);
    found.add("tools", tools);
    found.add("thinking", thinking || is_gptoss);
    let (sight, sound) = unserved(config, gguf.is_some());
    found.0.retain(|name| !(sight && name == "vision" || sound && name == "audio"));
    (found.0, template)
}

/// Capabilities without repetitions.
struct Found(Vec<String>);

impl Found {
    fn add(&mut self, name: &str, has: bool) {
        if has && !self.0.iter().any(|other| other == name) {
            self.0.push(name.to_owned());
        }
    }
}

/// Whether Ollama hides `vision` and `audio`, because it does not serve them for these models.
fn unserved(config: &ConfigBlob, is_gguf: bool) -> (bool, bool) {
    if is_gguf {
        return (false, config.family == "nemotron_h_omni");
    }
    let renderer = config.renderer.as_str();
    let gemma = ["gemma4", "gemma4-small", "gemma4-large"].contains(&renderer);
    let nemotron = renderer == "nemotron-3-nano" || config.parser == "nemotron-3-nano";
    (gemma || nemotron, gemma || nemotron || renderer == "glimmer")
}

/// The families of GPT-OSS.
const GPT_OSS: [&str; 2] = ["gptoss", "gpt-oss"];

fn chat_capabilities(chat_template: &str) -> Vec<&'static str> {
    let all = [("tools", offers_tools(chat_template)), ("thinking", thinks(chat_template))];
    all.into_iter().filter(|(_, held)| *held).map(|(name, _)| name).collect()
}

fn go_capabilities(template: &GoTemplate) -> Vec<&'static str> {
    let all = [
        ("tools", template.names("tools")),
        ("insert", template.names("suffix")),
        ("thinking", template.thinks()),
    ];
    all.into_iter().filter(|(_, held)| *held).map(|(name, _)| name).collect()
}

/// Whether Ollama uses the chat template of a GGUF file although there is a Go template
/// (`shouldPreferChatTemplate`): if it can do more, or writes the results of tools while the other
/// does not.
fn prefers_chat(chat_template: &str, chat: &[&str], go_template: &str, go: &[&str]) -> bool {
    let has = |piece: &str| chat_template.contains(piece);
    let calls = has("tool_calls") || has("assistant_tool_call");
    let results = ["tool_response", "tool_results", "ipython"].iter().any(|piece| has(piece));
    let role = ["role'] == ", "role\"] == ", "message.role == "]
        .iter()
        .any(|start| ["'tool'", "\"tool\""].iter().any(|end| has(&format!("{start}{end}"))));
    let chat_trip = offers_tools(chat_template) && calls && (results || role);
    let parsed = GoTemplate::parse(go_template);
    let go_trip = parsed.is_ok_and(|t| t.names("tools") && t.names("toolcalls"))
        && ["eq .Role \"tool\"", "tool_response", "TOOL_RESULTS"]
            .iter()
            .any(|piece| go_template.contains(piece));
    if chat.len() > go.len() {
        return !go_trip || chat_trip;
    }
    let same = chat.len() == go.len() && chat.iter().all(|name| go.contains(name));
    same && chat.contains(&"tools") && chat_trip && !go_trip
}
