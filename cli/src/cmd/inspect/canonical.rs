//! Tensors by their canonical names, and how they come of what is stored.

use serde::Serialize;
use weighbridge::arch::{Mapping, Resolution};
use weighbridge::{Form, Model, Tensor, Text};

use crate::Stop;
use crate::cmd::Filter;
use crate::json::Each;
use crate::layers::{Pattern, Rows};
use crate::print::{self, Align, Table};

/// A canonical tensor as it is served.
struct Served {
    /// `None` if it is not: the config contradicts the tensors, or is not there.
    view: Option<Tensor>,
    name: &'static str,
    /// For people.
    text: String,
    why: Option<String>,
}

impl Served {
    fn new(model: &Model, name: &str) -> Self {
        let found = model.tensor(name).and_then(|view| {
            let form = view.form()?;
            Ok((view, form))
        });
        let (view, form) = match found {
            Ok(found) => found,
            Err(error) => {
                let why = error.to_string();
                return Self {
                    view: None,
                    name: "fault",
                    text: format!("not served: {why}"),
                    why: Some(why),
                };
            }
        };
        let name = form.name();
        let text = match &form {
            Form::Stored => "as stored".to_owned(),
            Form::Reordered => "rows reordered".to_owned(),
            Form::Part => "part of the stored tensor".to_owned(),
            Form::Joined => format!("{} stored tensors joined", view.stored_names().count()),
            Form::Computed(why) => format!("computed: {why}"),
            _ => name.to_owned(),
        };
        let why = match form {
            Form::Computed(why) => Some(why),
            _ => None,
        };
        Self { view: Some(view), name, text, why }
    }

    fn dtype(&self) -> Option<String> {
        self.view.as_ref().map(Tensor::dtype_label)
    }

    fn shape(&self) -> Option<&[u64]> {
        self.view.as_ref().map(Tensor::shape)
    }
}

/// Tensors with canonical names that the filter lets through.
fn wanted<'a>(resolution: &'a Resolution, filter: &'a Filter) -> impl Iterator<Item = &'a Mapping> {
    let passes = move |mapping: &&Mapping| {
        let mut stored = mapping.stored.iter();
        stored.any(|stored| filter.passes(stored, Some(&mapping.canonical)))
    };
    resolution.mapped.iter().filter(passes)
}

/// The stored name, or all of them: `model.layers.0.mlp.experts.[0-7].w1.weight`.
fn stored(mapping: &Mapping) -> String {
    let mut names = Rows::new(true);
    for name in &mapping.stored {
        let (pattern, _) = Pattern::of(name);
        // Up to the number of the layer, and on from there to that of the expert.
        let (before, after) = name.split_at(name.len() - pattern.after.len());
        names.add(after, before, (), |(), ()| {});
    }
    let names = names.into_rows().into_iter().map(|row| format!("{}{}", row.alike, row.name()));
    names.collect::<Vec<_>>().join("+")
}

pub(super) fn table(all: bool, model: &Model, filter: &Filter) -> Result<Table, Stop> {
    let resolution = model.resolution()?;
    let mut mapped: Vec<&Mapping> = wanted(resolution, filter).collect();
    mapped.sort_by(|a, b| {
        let [a, b] = [a, b].map(|mapping| Text::new(mapping.canonical.as_bytes()));
        a.natural_cmp(b)
    });
    let mut rows = Rows::new(!all);
    for mapping in mapped {
        let served = Served::new(model, &mapping.canonical);
        let (stored, _) = Pattern::of(&stored(mapping));
        let shape = served.shape().map_or("-".to_owned(), print::shape);
        let alike = (stored, served.dtype().unwrap_or("-".to_owned()), shape, served.text);
        rows.add(&mapping.canonical, alike, (), |(), ()| {});
    }
    let mut table = Table::new(&[
        ("NAME", Align::Left),
        ("DTYPE", Align::Left),
        ("SHAPE", Align::Right),
        ("SERVED", Align::Left),
        ("STORED", Align::Left),
    ]);
    for row in rows.into_rows() {
        let (stored, dtype, shape, how) = &row.alike;
        let stored = row.with_layers(stored);
        table.row([row.name(), dtype.clone(), shape.clone(), how.clone(), stored]);
    }
    let unknown = resolution.unknown.iter().map(|name| (name, "without a canonical name"));
    let auxiliary = resolution.auxiliary.iter().map(|tensor| (&tensor.stored, tensor.reason));
    let mut others = Rows::new(!all);
    let mut named: Vec<(&String, &str)> =
        unknown.chain(auxiliary).filter(|(name, _)| filter.passes(name, None)).collect();
    named.sort_by(|(a, _), (b, _)| Text::new(a.as_bytes()).natural_cmp(Text::new(b.as_bytes())));
    for (name, what) in named {
        let tensor = model.stored_tensor(name)?;
        let shape = print::shape(tensor.shape());
        others.add(name, (tensor.dtype_label(), shape, what), (), |(), ()| {});
    }
    for row in others.into_rows() {
        let (dtype, shape, what) = &row.alike;
        let name = row.name();
        table.row(["-".to_owned(), dtype.clone(), shape.clone(), (*what).to_owned(), name]);
    }
    Ok(table)
}

#[derive(Serialize)]
struct Report<T: Serialize, U: Serialize, A: Serialize> {
    tensors: T,
    unknown: U,
    auxiliary: A,
}

#[derive(Serialize)]
struct TensorReport<'a> {
    name: &'a str,
    stored: &'a [String],
    dtype: Option<String>,
    shape: Option<Vec<u64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group_size: Option<u32>,
    /// How the stored tensors differ from it, as architectures have it.
    transform: String,
    /// `stored`, `reordered`, `part`, `joined`, `computed` or `fault`.
    served: &'static str,
    /// Why it is computed, or not served.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

#[derive(Serialize)]
struct AuxiliaryReport<'a> {
    name: &'a str,
    reason: &'a str,
}

pub(super) fn report<'a>(
    model: &'a Model,
    filter: &'a Filter,
) -> Result<impl Serialize + 'a, Stop> {
    let tensor = |mapping: &'a Mapping| {
        let served = Served::new(model, &mapping.canonical);
        TensorReport {
            name: &mapping.canonical,
            stored: &mapping.stored,
            dtype: served.dtype(),
            shape: served.shape().map(<[u64]>::to_vec),
            group_size: served.view.as_ref().and_then(Tensor::group_size),
            transform: mapping.transform.to_string(),
            served: served.name,
            why: served.why,
        }
    };
    let resolution = model.resolution()?;
    Ok(Report {
        tensors: Each(move || wanted(resolution, filter).map(tensor)),
        unknown: Each(move || {
            resolution.unknown.iter().filter(move |name| filter.passes(name, None))
        }),
        auxiliary: Each(move || {
            let tensors = resolution.auxiliary.iter();
            let wanted = tensors.filter(move |tensor| filter.passes(&tensor.stored, None));
            wanted.map(|tensor| AuxiliaryReport { name: &tensor.stored, reason: tensor.reason })
        }),
    })
}
