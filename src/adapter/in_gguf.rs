//! The matrices of an adapter under the names and in the row order of GGUF.

use std::collections::BTreeMap;

use super::merge::{check_architecture, factors, lacks};
use super::{Adapter, LowRankPair, gguf};
use crate::arch::factor;
use crate::arch::{Axes, Change, Dialect, RowOrder, Transform, canonical_of};
use crate::error::{Error, Result};
use crate::model::{EMBEDDING, Model, OUTPUT, Tensor};

/// The advice for what GGUF cannot hold.
const MERGE: &str = "merge the adapter into its model instead";

/// The matrices of an adapter in GGUF.
#[derive(Debug)]
pub(crate) struct GgufMatrices {
    /// `NAME.lora_a` and `NAME.lora_b` for each changed tensor.
    pub(crate) tensors: Vec<Tensor>,
    /// The canonical names of changed tensors that the base loses in GGUF, as a pooler.
    pub(crate) lost: Vec<String>,
    /// Each product is multiplied by this number divided by its rank; 0 if no product is multiplied.
    pub(crate) alpha: f32,
    /// The tokens after which they apply, and their key; none if they apply to all tokens.
    pub(crate) invocation: Option<(&'static str, Vec<u32>)>,
}

/// A product, and its matrices in the rows and columns of a canonical tensor.
struct CanonicalProduct<'a> {
    product: &'a LowRankPair,
    left: Tensor,
    right: Tensor,
}

impl Adapter {
    /// The matrices for a base whose tensors have these names in GGUF.
    ///
    /// # Errors
    ///
    /// Same as [`Adapter::merged`]; `Unsupported` for changes that are no products of two matrices of one
    /// GGUF tensor with a common alpha.
    pub(crate) fn in_gguf(&self, base: &Model, names: &[&str]) -> Result<GgufMatrices> {
        if let Some(obstacle) = &self.obstacle {
            return Err(obstacle.clone());
        }
        let within = |error: Error| error.in_file(self.path());
        check_architecture(base, self).map_err(within)?;
        self.check_products_alone().map_err(within)?;
        if let Some(other) = self.other_bases(base).map_err(within)?.first() {
            let fault =
                "the adapter was trained with another tensor than the base model has, and holds it";
            let error = Error::unsupported(fault).in_tensor(&other.stored);
            return Err(within(error.advise("merge it into the model that it was trained on")));
        }
        let alpha = self.common_alpha().map_err(within)?;
        let mut changed = self.canonical_products(base).map_err(within)?;
        if changed.contains_key(EMBEDDING) && !base.has(OUTPUT) {
            let fault = "an embedding that is also the output matrix: llama.cpp cannot change it";
            return Err(within(Error::unsupported(fault).in_tensor(EMBEDDING).advise(MERGE)));
        }
        let mut tensors = Vec::new();
        for name in names {
            tensors.extend(pair(base, name, &mut changed).map_err(within)?.into_iter().flatten());
        }
        let lost: Vec<String> = changed.into_keys().collect();
        match lost.first().filter(|_| tensors.is_empty()) {
            Some(name) => {
                Err(within(Error::unsupported("GGUF has no place for it").in_tensor(name)))
            }
            None => {
                let tokens = self.activation.as_ref().map(|activation| activation.tokens.clone());
                let invocation = tokens.map(|tokens| (gguf::INVOCATION, tokens));
                Ok(GgufMatrices { tensors, lost, alpha, invocation })
            }
        }
    }

    fn check_products_alone<'a>(&'a self) -> Result<()> {
        let norms =
            |product: &'a LowRankPair| product.magnitudes.as_ref().or(product.bias.as_ref());
        let norms = self.products.iter().find_map(norms);
        let others = norms.or(self.wholes.first().map(|whole| &whole.stored));
        match others.or(self.rows.first().map(|rows| &rows.stored)) {
            Some(stored) => {
                let fault =
                    "neither matrix of a product, and llama.cpp's adapters have nothing else";
                Err(Error::unsupported(fault).in_tensor(stored).advise(MERGE))
            }
            None => Ok(()),
        }
    }

    /// The alpha that gives each product its scale.
    fn common_alpha(&self) -> Result<f32> {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_precision_loss,
            reason = "as written"
        )]
        let alpha = |product: &LowRankPair| (product.scale * product.rank as f64) as f32;
        let fault = "the adapter changes no tensor: nothing was saved in it";
        let first = self.products.first().ok_or_else(|| Error::malformed(fault))?;
        match self.products.iter().find(|product| alpha(product) != alpha(first)) {
            None => Ok(alpha(first)),
            Some(_) if self.products.iter().all(|product| product.scale == 1.0) => Ok(0.0),
            Some(other) => {
                let fault = format!(
                    "alpha {}, but {} has {}, and llama.cpp has one alpha for all matrices",
                    alpha(other),
                    first.target,
                    alpha(first)
                );
                Err(Error::unsupported(fault).in_tensor(&other.target).advise(MERGE))
            }
        }
    }

    /// The products by the canonical names of the tensors that they change.
    fn canonical_products(&self, base: &Model) -> Result<BTreeMap<String, CanonicalProduct<'_>>> {
        let config = base.config().ok();
        let multipliers = factor::factors(base.store(), base.resolution()?)?;
        let mut changed = BTreeMap::new();
        for product in &self.products {
            let (name, targets) = product.changed(base, self)?;
            if targets.is_empty() {
                return Err(lacks(base, name, 1));
            }
            for target in targets {
                if target.expert.is_some() || target.tensor.shape().len() > 2 {
                    let fault = "an adapter of experts, which is not written as GGUF";
                    return Err(Error::unsupported(fault).in_tensor(&product.target).advise(MERGE));
                }
                let (left, right) = factors(self, product, &target, config)?;
                let name = target.tensor.name().to_owned();
                let left = match multipliers.iter().find(|factors| factors.are_of(&name)) {
                    Some(factors) => left.times(&factors.parts)?,
                    None => left,
                };
                changed.insert(name, CanonicalProduct { product, left, right });
            }
        }
        Ok(changed)
    }
}

/// Matrices A and B of a GGUF tensor, if it is changed; removes the products from `changed`.
fn pair(
    base: &Model,
    name: &str,
    changed: &mut BTreeMap<String, CanonicalProduct<'_>>,
) -> Result<Option<[Tensor; 2]>> {
    let Some(architecture) = base.resolution()?.architecture else { return Ok(None) };
    let mut held = canonical_of(architecture, Dialect::Gguf, name);
    held.retain(|part| base.has(&part.canonical));
    let count = held.len();
    let parts = held.into_iter();
    let parts = parts.filter_map(|part| Some((changed.remove(&part.canonical)?, part.transform)));
    let parts: Vec<(CanonicalProduct<'_>, Transform)> = parts.collect();
    let Some((CanonicalProduct { product, left, right }, transform)) = parts.first() else {
        return Ok(None);
    };
    let misfit = |fault: &'static str| Error::unsupported(fault).in_tensor(name).advise(MERGE);
    let is_one = parts.iter().all(|(part, _)| std::ptr::eq(part.product, *product));
    if parts.len() != count || !is_one {
        return Err(misfit("several matrices in one, which the adapter changes separately"));
    }
    let plain = |rows, columns| Transform { rows, columns, axes: Axes::Same, values: Change::None };
    if plain(transform.rows, transform.columns) != *transform {
        return Err(misfit("the adapter changes it in another form than that of GGUF"));
    }
    let (a, b) = (format!("{name}.lora_a"), format!("{name}.lora_b"));
    if name.starts_with("token_embd.") {
        let (left, right) = (left.clone(), right.clone().transpose()?);
        return Ok(Some([left.named(&a), right.named(&b)]));
    }
    let config = base.config().ok();
    let columns = plain(RowOrder::All, transform.columns);
    let a = Tensor::stored_as(&a, vec![(right.clone(), columns)], config)?;
    let rows = parts.into_iter();
    let rows = rows.map(|(part, transform)| (part.left, plain(transform.rows, RowOrder::All)));
    Ok(Some([a, Tensor::stored_as(&b, rows.collect(), config)?]))
}
