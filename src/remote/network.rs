//! Settings of the access to servers.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::bytes::FileSystem;
use crate::place::hub as hub_names;

/// Access to servers: their addresses, tokens and attempts.
///
/// [`Network::from_env`] reads the same variables as the hub's own client.
#[derive(Clone)]
#[non_exhaustive]
pub struct Network {
    /// Nothing is fetched: only headers and documents that were kept are used.
    pub offline: bool,
    /// The number of attempts before a request's failure is an error. A request is repeated if the
    /// connection fails, or the server answers 429, 500, 502, 503 or 504.
    pub attempts: u32,
    /// The time before the first repetition. It doubles each time, and varies by a half.
    pub backoff: Duration,
    /// The longest wait for a connection, an answer, or the next bytes of one.
    pub timeout: Duration,
    /// The folder in which headers and documents are kept; `None` keeps none.
    pub cache: Option<PathBuf>,
    /// The hub: `https://huggingface.co`, or a mirror.
    pub hub: String,
    /// The token for the hub. It is sent to the hub alone, and never shown.
    pub token: Option<String>,
    /// The registry of Ollama's models whose names have no host.
    pub registry: String,
    /// Called before a request is made again.
    pub on_retry: Option<OnRetry>,
}

impl Default for Network {
    fn default() -> Self {
        Self {
            offline: false,
            attempts: 5,
            backoff: Duration::from_millis(500),
            timeout: Duration::from_secs(30),
            cache: None,
            hub: "https://huggingface.co".to_owned(),
            token: None,
            registry: "https://registry.ollama.ai".to_owned(),
            on_retry: None,
        }
    }
}

/// A request that failed, and is made again.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Retry<'r> {
    /// The scheme and the host of the server.
    pub server: &'r str,
    /// The failure.
    pub reason: &'r str,
    /// The number of the attempt that failed, from 1.
    pub attempt: u32,
    /// The number of attempts that are made.
    pub attempts: u32,
    /// The time until the next attempt.
    pub wait: Duration,
}

/// Hears of the requests that are made again, from any thread.
pub type OnRetry = Arc<dyn Fn(&Retry<'_>) + Send + Sync>;

/// The token is left out.
impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network")
            .field("offline", &self.offline)
            .field("attempts", &self.attempts)
            .field("cache", &self.cache)
            .field("hub", &self.hub)
            .field("token", &self.token.as_ref().map(|_| "set"))
            .field("registry", &self.registry)
            .finish_non_exhaustive()
    }
}

impl Network {
    /// The settings of the environment: `HF_ENDPOINT`, `HF_TOKEN` or the file in which the hub's
    /// client keeps the token, `HF_HUB_OFFLINE`, `WEIGHBRIDGE_CACHE` for the folder of kept headers,
    /// and `WEIGHBRIDGE_OLLAMA_REGISTRY` for a mirror of Ollama's registry.
    pub fn from_env() -> Self {
        let text = |name: &str| std::env::var(name).ok().filter(|text| !text.trim().is_empty());
        let is_set = |name: &str| {
            text(name).is_some_and(|text| {
                matches!(text.to_ascii_uppercase().as_str(), "1" | "ON" | "YES" | "TRUE")
            })
        };
        let defaults = Self::default();
        // A mirror may be given by its host alone.
        let address = |name: &str| {
            let address = text(name)?.trim().trim_end_matches('/').to_owned();
            Some(if address.contains("://") { address } else { format!("https://{address}") })
        };
        Self {
            offline: is_set("HF_HUB_OFFLINE"),
            cache: own_cache(),
            hub: address("HF_ENDPOINT").unwrap_or(defaults.hub),
            registry: address("WEIGHBRIDGE_OLLAMA_REGISTRY").unwrap_or(defaults.registry),
            token: if is_set("HF_HUB_DISABLE_IMPLICIT_TOKEN") { None } else { token(&text) },
            ..defaults
        }
    }
}

#[cfg(feature = "http")]
impl Network {
    /// Reports a request that is made again.
    pub(super) fn retries(&self, address: &str, reason: &str, attempt: u32, wait: Duration) {
        if let Some(heard) = &self.on_retry {
            let attempts = self.attempts;
            heard(&Retry {
                server: super::address::origin(address),
                reason,
                attempt,
                attempts,
                wait,
            });
        }
    }
}

/// The hub's token, in the order of its client: the variable, its old name, the file.
fn token(text: &impl Fn(&str) -> Option<String>) -> Option<String> {
    let file = || {
        let path = text("HF_TOKEN_PATH").map(PathBuf::from);
        let path = path.or_else(|| Some(hub_names::home()?.join("token")))?;
        std::fs::read_to_string(path).ok()
    };
    let found = text("HF_TOKEN").or_else(|| text("HUGGING_FACE_HUB_TOKEN")).or_else(file)?;
    let found = found.trim().to_owned();
    // A token with a line break would add a header of its own.
    let printable = found.bytes().all(|byte| byte.is_ascii_graphic());
    (!found.is_empty() && printable).then_some(found)
}

/// The folder in which this library keeps headers and the index of models.
pub(crate) fn own_cache() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|set| !set.is_empty()).map(PathBuf::from);
    set("WEIGHBRIDGE_CACHE")
        .or_else(|| Some(set("XDG_CACHE_HOME")?.join("weighbridge")))
        .or_else(|| Some(std::env::home_dir()?.join(".cache/weighbridge")))
}

/// A model on a server: its files, and the path of the model among them.
pub(crate) struct RemoteModel {
    pub(crate) files: Arc<dyn FileSystem>,
    pub(crate) path: PathBuf,
}
