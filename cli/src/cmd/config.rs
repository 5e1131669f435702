//! `config`: the numbers an engine needs.

use std::io::Write;

use serde_json::{Map, Value, json};
use weighbridge::ModelConfig;
use weighbridge::arch::{Field, resolve};

use super::Done;
use crate::args::Config;
use crate::json::SCHEMA;
use crate::print::{Align, Table};
use crate::{Status, remark};

pub(crate) fn run(args: &Config) -> Done {
    let store = args.open.options().open(&args.path)?;
    let resolution = resolve(&store)?;
    let config = ModelConfig::of(&store, &resolution)?;
    let mut fields = Fields::default();
    fields.push("architecture", Some(&config.architecture));
    fields.push("dim", Some(&config.dim));
    fields.push("n_layers", Some(&config.n_layers));
    fields.push("n_heads", Some(&config.n_heads));
    fields.push("n_kv_heads", Some(&config.n_kv_heads));
    fields.push("head_dim", Some(&config.head_dim));
    fields.push("q_dim", Some(&config.q_dim));
    fields.push("kv_dim", Some(&config.kv_dim));
    fields.push("ffn_dim", config.ffn_dim.as_ref());
    fields.push("vocab_size", config.vocab_size.as_ref());
    fields.push("max_seq_len", config.max_seq_len.as_ref());
    fields.push_float("norm_eps", config.norm_eps.as_ref());
    fields.push_float("rope_theta", Some(&config.rope_theta));
    fields.push("tie_embeddings", config.tie_embeddings.as_ref());
    fields.push("n_experts", Some(&config.n_experts));
    if let Some(rope) = resolution.stored_rope_layout() {
        let source =
            if resolution.mapped.iter().any(|m| m.transform.rows != weighbridge::arch::Rows::All) {
                "rows permuted by the converter to GGUF".to_owned()
            } else {
                format!("{} names", resolution.dialect.name())
            };
        fields.push("rope_layout", Some(&Field { value: rope.name(), source: source.into() }));
    }
    if args.json {
        let config: Map<String, Value> = fields
            .0
            .into_iter()
            .map(|(name, value, source)| (name.into(), json!({"value": value, "source": source})))
            .collect();
        crate::json::write(
            &json!({"schema": SCHEMA, "path": args.path.to_string_lossy(), "config": config}),
        )?;
        return Ok(Status::Fine);
    }
    remark(&store);
    let mut out = std::io::BufWriter::new(anstream::stdout().lock());
    let mut table =
        Table::new(&[("FIELD", Align::Left), ("VALUE", Align::Right), ("FROM", Align::Left)]);
    for (name, value, source) in fields.0 {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        table.row([name.to_owned(), value, source]);
    }
    table.write(&mut out)?;
    out.flush()?;
    Ok(Status::Fine)
}

#[derive(Default)]
struct Fields(Vec<(&'static str, Value, String)>);

impl Fields {
    /// With as many digits as the value has, not as many as its neighbour in `f64` needs.
    fn push_float(&mut self, name: &'static str, field: Option<&Field<f32>>) {
        let shortest = |value: f32| value.to_string().parse::<f64>().unwrap_or(value.into());
        let field = field.map(|f| Field { value: shortest(f.value), source: f.source.clone() });
        self.push(name, field.as_ref());
    }

    fn push<T: serde::Serialize>(&mut self, name: &'static str, field: Option<&Field<T>>) {
        if let Some(field) = field {
            self.0.push((name, json!(field.value), field.source.clone().into_owned()));
        }
    }
}
