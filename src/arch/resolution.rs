//! What a [`Resolution`] says of the names of a model, and what a caller leaves out of it.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

use super::{
    Architecture, Auxiliary, Dialect, Mapping, Resolution, RopeLayout, auxiliary, wrapper,
};
use crate::bytes::Text;
use crate::error::{Error, Result};

impl Auxiliary {
    /// Whether it belongs to a vision or audio model in the same files.
    pub(crate) fn is_of_a_tower(&self) -> bool {
        auxiliary::TOWERS.contains(&self.reason)
    }

    /// Whether the caller leaves it out.
    pub(crate) fn is_left_out(&self) -> bool {
        self.reason == auxiliary::LEFT_OUT
    }
}

impl Resolution {
    pub(super) fn empty(
        architecture: Option<&'static Architecture>,
        dialect: Dialect,
        reason: String,
    ) -> Self {
        let (wrapper, wrapped) = (String::new(), 0);
        let (mapped, auxiliary, unknown, missing) = Default::default();
        Self {
            architecture,
            dialect,
            reason,
            wrapper,
            wrapped,
            mapped,
            auxiliary,
            unknown,
            missing,
        }
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

    /// Leaves out the unknown tensors whose stored names `matches` accepts.
    ///
    /// # Errors
    ///
    /// `Mismatch` if a tensor with a canonical name is among them, `NotFound` if there is none at all.
    pub(crate) fn leave_out(&mut self, matches: impl Fn(&str) -> bool) -> Result<()> {
        let mapped = self.mapped.iter().flat_map(|mapping| &mapping.stored);
        if let Some(needed) = mapped.clone().find(|stored| matches(stored)) {
            let fault = "the model needs the tensor, so that it cannot be left out";
            return Err(Error::mismatch(fault).in_tensor(needed));
        }
        let is_auxiliary = self.auxiliary.iter().any(|tensor| matches(&tensor.stored));
        let (left, unknown): (Vec<String>, Vec<String>) =
            std::mem::take(&mut self.unknown).into_iter().partition(|stored| matches(stored));
        self.unknown = unknown;
        if left.is_empty() && !is_auxiliary {
            return Err(Error::not_found("no tensor has the name of one to leave out"));
        }
        let left_out = |stored| Auxiliary { stored, reason: auxiliary::LEFT_OUT };
        self.auxiliary.extend(left.into_iter().map(left_out));
        Ok(())
    }

    /// A stored name without the pieces of wrappers, which are noted.
    pub(super) fn unwrap<'n>(&mut self, stored: &'n str) -> Cow<'n, str> {
        let (bare, pieces) = wrapper::unwrapped(stored);
        if !pieces.is_empty() {
            self.wrapped = self.wrapped.saturating_add(1);
            self.wrapper = pieces;
        }
        bare
    }

    /// A stored name as the tables have it.
    pub(crate) fn bare<'n>(&self, stored: &'n str) -> Cow<'n, str> {
        match self.wrapped {
            0 => Cow::Borrowed(stored),
            _ => wrapper::unwrapped(stored).0,
        }
    }

    /// A statement about the pieces of wrappers in `of` stored names, if they have any.
    pub(crate) fn wrapper_in(&self, of: usize) -> Option<String> {
        let Self { wrapper, wrapped, .. } = self;
        Some(match of.saturating_sub(*wrapped) {
            _ if *wrapped == 0 => return None,
            0 => format!("every tensor name has \"{wrapper}\""),
            _ => format!("{wrapped} of {of} tensor names have \"{wrapper}\""),
        })
    }

    /// The layers that predict further tokens and whose tensors have names, by number. They follow
    /// those of the language model.
    pub(crate) fn next_layers(&self) -> BTreeSet<u32> {
        let next = |mapping: &Mapping| {
            let (layer, rest) = mapping.canonical.strip_prefix("layers.")?.split_once('.')?;
            layer.parse::<u32>().ok().filter(|_| rest.starts_with("nextn."))
        };
        let layers: BTreeSet<u32> = self.mapped.iter().filter_map(next).collect();
        if layers.contains(&0) { BTreeSet::new() } else { layers }
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
                if self.is_by_structure() {
                    write!(f, "{reason}: {} tensors named by structure, ", self.mapped.len())?;
                } else {
                    write!(f, "{reason}: ")?;
                }
                write!(f, "{} tensors under stored names", self.unknown.len())
            }
        }
    }
}
