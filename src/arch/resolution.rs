//! The mapping from the stored names of a model to canonical names.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashSet};
use std::fmt;

use super::architecture::{Architecture, RopeLayout};
use super::mapping::{self, Mapping};
use super::tensor::CanonicalTensor;
use super::wrapper::OwnPieces;
use super::{auxiliary, wrapper};
use crate::bytes::Text;
use crate::dialect::Dialect;
use crate::error::{Error, Result};

/// A stored tensor that no model code asks for.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Auxiliary {
    /// The name in the file.
    pub stored: String,
    /// A description of the tensor.
    pub reason: &'static str,
}

/// The mapping from a model's stored names to canonical names. Every tensor is accounted for: those
/// without a canonical name are in [`unknown`](Self::unknown), missing ones in
/// [`missing`](Self::missing).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Resolution {
    /// The architecture, or `None` if it is unknown.
    pub architecture: Option<&'static Architecture>,
    /// The dialect of the model's tensor names.
    pub dialect: Dialect,
    /// The reason why this architecture was chosen, or why none was.
    pub reason: String,
    /// The text that a program which wraps a model, or modules of it, put into stored names; empty
    /// if there is none. The tables have the names without it.
    pub wrapper: String,
    /// The number of stored names that have such a piece.
    pub wrapped: usize,
    /// Those among these pieces that only this model has.
    pub(super) own_pieces: OwnPieces,
    /// Stored names that transformers' class of the model does not have, and those that it has instead.
    pub(crate) renamed: Vec<(String, String)>,
    /// The class in `config.json`, if it is that of a language model alone.
    pub(crate) text_class: Option<String>,
    /// Whether the language model's names have a prefix that the tables lack.
    pub(crate) is_within: bool,
    /// Names under which required tensors are missing, and the stored names that these tensors have instead.
    pub(crate) aliases: Vec<(String, String)>,
    /// Tensors with canonical names, in the order of the files.
    pub mapped: Vec<Mapping>,
    /// Known tensors that are not weights of the language model: made by a converter, computed from
    /// the config, or part of another model in the same files.
    pub auxiliary: Vec<Auxiliary>,
    /// Stored names without a canonical name, in the order of the files.
    pub unknown: Vec<String>,
    /// Those among them that stand for canonical tensors in a quantization scheme which is not decoded.
    pub undecoded: Vec<Undecoded>,
    /// Canonical names of tensors that the architecture requires and the model lacks. Ranges of
    /// whole layers form one entry, `layers.4..8`; so does a tensor that several layers lack,
    /// `layers.[0-3,7].ffn.up.weight`. A tensor of the head that a class has for another task has its stored name, with that
    /// class: `score.weight (the head of Qwen3ForSequenceClassification)`.
    pub missing: Vec<String>,
}

impl Auxiliary {
    /// Whether it belongs to a vision or audio model in the same files.
    pub(crate) fn is_of_a_tower(&self) -> bool {
        auxiliary::TOWERS.contains(&self.reason)
    }

    /// Whether classes compute it, whether it is stored or not.
    pub(crate) fn is_computed(&self) -> bool {
        auxiliary::COMPUTED.contains(&self.reason)
    }

    /// Whether it is a weight of a part that `diff` compares beside the language model.
    pub(crate) fn is_of_another_part(&self) -> bool {
        self.is_of_a_tower() || self.reason == auxiliary::NEXT_TOKENS
    }

    /// Whether it holds divisors of rotary frequencies, which GGUF has instead of keys.
    pub(crate) fn is_rotary(&self) -> bool {
        auxiliary::ROTARY.contains(&self.reason)
    }

    /// Whether it belongs to a quantization scheme, and means nothing beside decoded weights.
    pub(crate) fn is_of_scheme(&self) -> bool {
        auxiliary::OF_SCHEME.contains(&self.reason)
    }

    /// Whether it is left out of what is written, as the caller asks for or since it changes nothing.
    pub(crate) fn is_left_out(&self) -> bool {
        [auxiliary::LEFT_OUT, auxiliary::ZERO_BIAS].contains(&self.reason)
    }
}

/// A stored array that a canonical tensor's values would be computed from, if its scheme were decoded.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Undecoded {
    /// The canonical name of the tensor, which no stored tensor is mapped to.
    pub canonical: String,
    /// The name of the array in the file.
    pub stored: String,
}

impl Resolution {
    /// Whether any layer has a dense feed-forward network.
    pub(crate) fn has_network(&self) -> bool {
        self.mapped.iter().any(|mapping| mapping.canonical.ends_with(".ffn.up.weight"))
    }

    /// The facts about the tensor with this canonical name.
    pub(crate) fn canonical_tensor(&self, canonical: &str) -> Option<CanonicalTensor> {
        CanonicalTensor::of(canonical, self.architecture.map_or(&[], |row| row.canonical))
    }

    pub(super) fn empty(
        architecture: Option<&'static Architecture>,
        dialect: Dialect,
        reason: String,
    ) -> Self {
        let (wrapper, wrapped, own_pieces) = (String::new(), 0, OwnPieces::default());
        let (renamed, aliases, mapped, auxiliary) = Default::default();
        let (unknown, undecoded, missing) = Default::default();
        Self {
            architecture,
            dialect,
            reason,
            wrapper,
            wrapped,
            own_pieces,
            renamed,
            text_class: None,
            is_within: false,
            aliases,
            mapped,
            auxiliary,
            unknown,
            undecoded,
            missing,
        }
    }

    /// The first array that stands for a canonical tensor in a scheme which is not decoded.
    pub(crate) fn undecoded(&self, canonical: &str) -> Option<&str> {
        let found = self.undecoded.iter().find(|array| array.canonical == canonical);
        found.map(|array| array.stored.as_str())
    }

    /// Whether no family describes the model, and its canonical names were derived from stored names and
    /// shapes.
    pub fn is_by_structure(&self) -> bool {
        self.architecture.is_none() && !self.mapped.is_empty()
    }

    /// Whether the files also hold a vision or audio model.
    pub(crate) fn has_towers(&self) -> bool {
        self.auxiliary.iter().any(Auxiliary::is_of_a_tower)
    }

    /// Whether every tensor is known, and none is of a vision or audio model.
    pub(crate) fn lacks_towers(&self) -> bool {
        self.architecture.is_some()
            && !self.mapped.is_empty()
            && self.unknown.is_empty()
            && !self.has_towers()
    }

    /// Whether the caller left out the vision or audio model, so that no tensor of it remains but those of a projector.
    pub(crate) fn is_without_encoder(&self) -> bool {
        let is_encoder = |tensor: &Auxiliary| auxiliary::is_encoder(&tensor.stored);
        let (left, kept): (Vec<&Auxiliary>, Vec<&Auxiliary>) =
            self.auxiliary.iter().partition(|tensor| tensor.reason == auxiliary::LEFT_OUT);
        left.into_iter().any(is_encoder) && !kept.into_iter().any(is_encoder)
    }

    /// Leaves out the tensors without canonical names whose stored names `matches` accepts.
    ///
    /// # Errors
    ///
    /// `Mismatch` if a tensor with a canonical name is among them, `NotFound` if there is none at all.
    pub(crate) fn leave_out(&mut self, matches: impl Fn(&str) -> bool) -> Result<()> {
        let mut mapped =
            self.mapped.iter().flat_map(|of| of.stored.iter().map(move |name| (of, name)));
        if let Some((of, needed)) = mapped.find(|(_, stored)| matches(stored)) {
            let is_of = |layer: &u32| of.canonical.starts_with(&format!("layers.{layer}."));
            let error = match mapping::next_layers(&self.mapped).into_iter().find(is_of) {
                Some(layer) => Error::mismatch(format!(
                    "the tensor is of layer {layer}, which predicts further tokens (nextn) and is left out as a whole"
                ))
                .advise(format!("`quantize SRC DST COPY --prune-layers {layer}` leaves it out of a GGUF file")),
                None => Error::mismatch("the model needs the tensor, so that it cannot be left out"),
            };
            return Err(error.in_tensor(needed));
        }
        let known = std::mem::take(&mut self.auxiliary);
        let (known_left, known): (Vec<Auxiliary>, Vec<Auxiliary>) =
            known.into_iter().partition(|tensor| matches(&tensor.stored));
        let (left, unknown): (Vec<String>, Vec<String>) =
            std::mem::take(&mut self.unknown).into_iter().partition(|stored| matches(stored));
        (self.auxiliary, self.unknown) = (known, unknown);
        let left = known_left.into_iter().map(|tensor| tensor.stored).chain(left);
        let before = self.auxiliary.len();
        let left_out = |stored| Auxiliary { stored, reason: auxiliary::LEFT_OUT };
        self.auxiliary.extend(left.map(left_out));
        if self.auxiliary.len() == before {
            let fault = "no tensor has the name of one to leave out";
            let globs = self.optional_globs();
            return Err(Error::not_found(fault).advise(match globs.is_empty() {
                true => "every tensor of this model is needed".to_owned(),
                false => format!("these can be left out: {}", globs.join(", ")),
            }));
        }
        Ok(())
    }

    /// Adds other names of stored tensors, unless they are renamed already.
    pub(super) fn rename(&mut self, mut names: Vec<(String, String)>) {
        let known: HashSet<&String> = self.renamed.iter().map(|(stored, _)| stored).collect();
        names.retain(|(stored, _)| !known.contains(stored));
        self.renamed.append(&mut names);
    }

    /// Leaves out tensors with canonical names that change nothing.
    pub(crate) fn unmap(&mut self, is_left: impl Fn(&Mapping) -> bool, reason: &'static str) {
        let all = std::mem::take(&mut self.mapped);
        let (left, kept): (Vec<Mapping>, Vec<Mapping>) = all.into_iter().partition(is_left);
        let serves: HashSet<&String> = kept.iter().flat_map(|of| &of.stored).collect();
        let mut stored: Vec<&String> = left.iter().flat_map(|of| &of.stored).collect();
        stored.retain(|stored| !serves.contains(stored));
        stored.dedup();
        let left = stored.into_iter().map(|stored| Auxiliary { stored: stored.clone(), reason });
        self.auxiliary.extend(left);
        self.mapped = kept;
    }

    /// A stored name without the pieces of wrappers, which are noted.
    pub(super) fn unwrap<'n>(&mut self, stored: &'n str) -> Cow<'n, str> {
        let (bare, pieces) = wrapper::unwrapped(stored, &self.own_pieces);
        if !pieces.is_empty() {
            self.wrapped = self.wrapped.saturating_add(1);
            self.wrapper = pieces;
        }
        bare
    }

    /// A stored name as the tables have it.
    pub(crate) fn bare<'n>(&self, stored: &'n str) -> Cow<'n, str> {
        let bare = match self.wrapped {
            0 => Cow::Borrowed(stored),
            _ => wrapper::unwrapped(stored, &self.own_pieces).0,
        };
        auxiliary::outside_language_model(&bare).map_or(bare, Cow::Owned)
    }

    /// A statement about the pieces of wrappers in `of` stored names, if they have any.
    pub(crate) fn wrapper_in(&self, of: usize) -> Option<String> {
        let Self { wrapper, wrapped, .. } = self;
        let again = if self.own_pieces.repeats { " once more" } else { "" };
        Some(match of.saturating_sub(*wrapped) {
            _ if *wrapped == 0 => return None,
            0 => format!("every tensor name has \"{wrapper}\"{again}"),
            _ => format!("{wrapped} of {of} tensor names have \"{wrapper}\"{again}"),
        })
    }

    /// A statement about stored names that transformers' class does not have, if there are any.
    pub(crate) fn renamed_in_class(&self) -> Option<String> {
        let [(stored, name), others @ ..] = self.renamed.as_slice() else { return None };
        let more = match others.len() {
            0 => String::new(),
            more => format!(", and {more} other names"),
        };
        Some(format!("transformers' class has {name} in place of {stored}{more}"))
    }

    /// A statement about a vision or audio model next to a language model whose class has none.
    pub(crate) fn ignored_by_class(&self) -> Option<String> {
        let class = Text::new(self.text_class.as_ref()?.as_bytes()).brief();
        let mut towers = self.auxiliary.iter().filter(|tensor| tensor.is_of_a_tower());
        let first = Text::new(towers.next()?.stored.as_bytes()).brief();
        let more = match towers.count() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        Some(format!(
            "config.json states {class}, which has no vision or audio model: transformers ignores {first}{more}"
        ))
    }

    /// A statement about files that hold parts of a model alone, and no tensor of the language model.
    pub(crate) fn part_alone(&self) -> Option<String> {
        let Self { architecture, mapped, unknown, auxiliary, .. } = self;
        architecture.as_ref()?;
        let first = auxiliary.first().filter(|_| mapped.is_empty() && unknown.is_empty())?;
        Some(match self.is_of_next_tokens() {
            true => "the files hold the layers that predict further tokens alone (multi-token prediction, nextn), which \
                     are a part of a model"
                .to_owned(),
            false => format!(
                "the files hold no tensor of the language model: {} is {}",
                first.stored, first.reason
            ),
        })
    }

    /// Whether all tensors are of layers that predict further tokens, under names that no family has.
    fn is_of_next_tokens(&self) -> bool {
        let Self { mapped, unknown, auxiliary, .. } = self;
        let mut parts = auxiliary.iter();
        let others = mapped.len().saturating_add(unknown.len());
        others == 0 && !auxiliary.is_empty() && parts.all(|t| t.reason == auxiliary::NEXT_TOKENS)
    }

    /// Refuses files that hold other parts of a model than the language model.
    ///
    /// # Errors
    ///
    /// `Unsupported`.
    pub(crate) fn check_language_model(&self) -> Result<()> {
        let advice = "give the directory of the whole model, with the layers of the language model";
        self.part_alone().map_or(Ok(()), |part| Err(Error::unsupported(part).advise(advice)))
    }

    /// The same for layers that predict further tokens, of which the config of the whole model says nothing.
    ///
    /// # Errors
    ///
    /// `Unsupported`.
    pub(super) fn check_config(&self) -> Result<()> {
        if self.is_of_next_tokens() { self.check_language_model() } else { Ok(()) }
    }

    /// Whether a stored tensor serves under another name alone: the output matrix of a tied model that stores no
    /// embedding.
    pub(crate) fn is_stored_under_alias(&self, stored: &str) -> bool {
        let is_stored = |names: &[String]| names.iter().any(|name| name == stored);
        self.aliases.iter().any(|(_, name)| name == stored)
            && self.mapped.iter().filter(|mapping| is_stored(&mapping.stored)).count() == 1
    }

    /// A statement about an embedding that is stored as the output matrix alone.
    pub(crate) fn stored_as_output(&self) -> Option<String> {
        let (alias, stored) =
            self.aliases.iter().find(|(_, stored)| self.is_stored_under_alias(stored))?;
        Some(format!(
            "the model lacks {alias}: its config ties it to {stored}, which is read in its place, as transformers 5 does"
        ))
    }

    /// The layers that predict further tokens and whose tensors have names, by number. They follow
    /// those of the language model.
    pub(crate) fn next_layers(&self) -> BTreeSet<u32> {
        mapping::next_layers(&self.mapped)
    }

    /// The order of the rows of q and k as stored, if the architecture is known. Canonical tensors
    /// have Hugging Face's order, [`Architecture::rope`].
    pub fn stored_rope_layout(&self) -> Option<RopeLayout> {
        let architecture = self.architecture?;
        let permuted = self.mapped.iter().any(|mapping| mapping.transform.is_paired());
        Some(if permuted { RopeLayout::Interleaved } else { architecture.rope })
    }
}

impl fmt::Display for Resolution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.architecture {
            Some(architecture) => write!(
                f,
                "{} ({}): {} tensors mapped, {} unknown, {} missing",
                architecture.name,
                Text::new(self.reason.as_bytes()).brief(),
                self.mapped.len(),
                self.unknown.len(),
                self.missing.len()
            ),
            None => {
                let reason = Text::new(self.reason.as_bytes()).brief();
                let stored = self.unknown.len().saturating_add(self.auxiliary.len());
                if self.is_by_structure() {
                    write!(f, "{reason}: {} tensors named by structure, ", self.mapped.len())?;
                } else {
                    write!(f, "{reason}: ")?;
                }
                write!(f, "{stored} tensors under stored names")
            }
        }
    }
}
