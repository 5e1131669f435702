//! Conversations as text, by a model's own chat template.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Serde};
use minijinja::{Environment, ErrorKind, Value};
use serde::Serialize;
use serde_json::json;
use weighbridge::Model;
use weighbridge::tokenizer::ChatTemplate as StoredTemplate;

use crate::error::{Error, Result};

/// Instructions that a template may run. The longest of known templates need some thousands.
const FUEL: u64 = 1_000_000;

/// Nested blocks and calls of a template.
const DEPTH: usize = 128;

/// A chat template, which formats a conversation as text. It is rendered as transformers renders it,
/// except that it has no clock: templates that ask for today's date use their own default.
#[derive(Debug)]
pub struct ChatTemplate {
    environment: Environment<'static>,
    /// The texts of the special tokens, under the names that templates use.
    tokens: Vec<(String, String)>,
}

/// A message of a conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// The speaker: `system`, `user` or `assistant`.
    pub role: String,
    /// The text.
    pub content: String,
}

const NAME: &str = "chat";

impl ChatTemplate {
    /// The template of a model; `None` if it has none.
    ///
    /// # Errors
    ///
    /// `Model` if the tokenizer's files cannot be read; `Unsupported` if the template is not valid.
    pub fn new(model: &Model) -> Result<Option<Self>> {
        let Some(tokenizer) = model.tokenizer()? else { return Ok(None) };
        let Some(template) = tokenizer.chat_template() else { return Ok(None) };
        let token = |name: &str| {
            let id = tokenizer.special(name)?;
            let token = tokenizer.tokens().find(|token| token.id == id)?;
            Some((format!("{name}_token"), String::from_utf8_lossy(&token.text).into_owned()))
        };
        let tokens = ["bos", "eos", "unk", "pad", "sep", "cls", "mask"];
        Self::of_text(template, tokens.into_iter().filter_map(token).collect()).map(Some)
    }

    fn of_text(template: &str, tokens: Vec<(String, String)>) -> Result<Self> {
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(|error| invalid(&error))?);
        environment.set_recursion_limit(DEPTH);
        environment.set_fuel(Some(FUEL));
        environment
            .set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_function(
            "raise_exception",
            |text: String| -> Result<Value, minijinja::Error> {
                Err(minijinja::Error::new(ErrorKind::InvalidOperation, text))
            },
        );
        environment.add_filter("tojson", to_json);
        environment
            .add_template_owned(NAME, StoredTemplate::without_training_tags(template))
            .map_err(|error| invalid(&error))?;
        Ok(Self { environment, tokens })
    }

    /// The text of a conversation, up to the place where the assistant answers.
    ///
    /// # Errors
    ///
    /// `Unsupported` if the template refuses the conversation, or cannot be rendered.
    pub fn render(&self, messages: &[Message]) -> Result<String> {
        let template = self.environment.get_template(NAME).map_err(|error| invalid(&error))?;
        let messages = messages
            .iter()
            .map(|Message { role, content }| json!({ "role": role, "content": content }));
        let tokens = self.tokens.iter().map(|(name, text)| (name.clone(), json!(text)));
        let values: serde_json::Map<_, _> = tokens
            .chain([
                ("messages".to_owned(), messages.collect()),
                ("add_generation_prompt".to_owned(), true.into()),
            ])
            .collect();
        template.render(Serde(values)).map_err(|error| invalid(&error))
    }
}

/// JSON as Python's `json.dumps` writes it, with the options that templates use.
fn to_json(value: Value, options: Kwargs) -> Result<Value, minijinja::Error> {
    let indent: Option<usize> = options.get("indent")?;
    let value = serde_json::to_value(&value)
        .map_err(|error| minijinja::Error::new(ErrorKind::BadSerialization, error.to_string()))?;
    let text = match indent {
        Some(width) => indented(&value, width.min(DEPTH))?,
        None => spaced(&value),
    };
    Ok(Value::from_safe_string(text))
}

/// JSON in several lines.
fn indented(value: &serde_json::Value, width: usize) -> Result<String, minijinja::Error> {
    let spaces = vec![b' '; width];
    let format = serde_json::ser::PrettyFormatter::with_indent(&spaces);
    let mut out = Vec::new();
    value
        .serialize(&mut serde_json::Serializer::with_formatter(&mut out, format))
        .map_err(|error| minijinja::Error::new(ErrorKind::BadSerialization, error.to_string()))?;
    Ok(String::from_utf8_lossy(&out).into_owned())
}

/// JSON in one line, with a space behind colons and commas.
fn spaced(value: &serde_json::Value) -> String {
    use serde_json::Value as Json;
    match value {
        Json::Array(items) => {
            format!("[{}]", items.iter().map(spaced).collect::<Vec<_>>().join(", "))
        }
        Json::Object(members) => {
            let member = |(key, value): (&String, &Json)| {
                format!("{}: {}", Json::from(key.as_str()), spaced(value))
            };
            format!("{{{}}}", members.iter().map(member).collect::<Vec<_>>().join(", "))
        }
        plain => plain.to_string(),
    }
}

fn invalid(error: &minijinja::Error) -> Error {
    let line = error.line().map_or(String::new(), |line| format!(" in line {line}"));
    let what = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
    Error::Unsupported(format!("the chat template fails{line}: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(template: &str, messages: &[(&str, &str)]) -> Result<String> {
        let tokens = vec![("bos_token".to_owned(), "<s>".to_owned())];
        let message = |(role, content): &(&str, &str)| Message {
            role: (*role).to_owned(),
            content: (*content).to_owned(),
        };
        let messages: Vec<Message> = messages.iter().map(message).collect();
        ChatTemplate::of_text(template, tokens)?.render(&messages)
    }

    /// The expected texts are those of transformers 5.23 (`apply_chat_template`).
    #[test]
    fn templates_are_rendered_as_transformers_does() {
        let marked = "{{ bos_token }}{% for message in messages %}\n    \
            {{- '<|im_start|>' + message['role'] + '\\n' + message.content.strip() + '<|im_end|>\\n' -}}\n\
            {% endfor %}\n{% if add_generation_prompt %}\n<|im_start|>assistant\n{% endif %}\n";
        let text = rendered(marked, &[("system", " Be brief. "), ("user", "Hi")]).unwrap();
        assert_eq!(
            text,
            "<s><|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n\
             <|im_start|>assistant\n"
        );
        let python = "{%- set ns = namespace(n=0) -%}{% for m in messages[::-1] %}{% set ns.n = ns.n + 1 %}\
            {{ m.role.upper() }}:{{ m['content'].split(' ')[-1] }};{% if loop.last %}{% break %}{% endif %}\
            {% generation %}g{% endgeneration %}{% endfor %}{{ ns.n }}{{ {'a': [1, 'x']} | tojson }}\
            {{ today if today is defined else 'never' }}{{ messages | length }}";
        let text = rendered(python, &[("user", "one two"), ("assistant", "three four")]).unwrap();
        assert_eq!(text, "ASSISTANT:four;gUSER:two;2{\"a\": [1, \"x\"]}never2");
    }

    #[test]
    fn a_template_may_refuse_and_may_not_run_forever() {
        let refuse =
            "{% if messages[0].role != 'user' %}{{ raise_exception('user first') }}{% endif %}";
        let error = rendered(refuse, &[("system", "x")]).unwrap_err().to_string();
        assert_eq!(error, "unsupported: the chat template fails in line 1: user first");
        let endless =
            "{% for a in range(9999) %}{% for b in range(9999) %}{{ b }}{% endfor %}{% endfor %}";
        let error = rendered(endless, &[]).unwrap_err().to_string();
        assert!(error.contains("fails in line 1"), "{error}");
        let broken = rendered("{% if %}", &[]).unwrap_err().to_string();
        assert!(broken.contains("fails in line 1"), "{broken}");
    }
}
