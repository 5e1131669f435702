//! Families, variants and classes, as a file of families describes them.

use super::families::Families;
use super::step::Step;
use super::table::{Tables, number, prefix, value};
use super::text::{Line, Parsed, Section};
use crate::arch::config::{ConfigValue, FamilyDefault, OwnKeys, key};
use crate::arch::habits::{Exceptions, MlxChoice, MlxModules, MlxPath};
use crate::arch::rule::FactorRule;
use crate::arch::variant::{Class, Condition, ConfigCondition, ConfigRule, KeyRule, Variant};
use crate::arch::{
    Architecture, ConditionalName, Instead, KeyedTensor, NameRule, PlanLine, Prefix, Rename,
    RopeLayout,
};

/// Parses the families of a file.
pub(super) fn families(tables: &Tables) -> Parsed<Families> {
    let mut families = Families::default();
    let mut family: Option<FamilyDraft> = None;
    let mut variant: Option<VariantDraft> = None;
    for section in &tables.others {
        let Section { head, lines } = section;
        if head.keyword != "class" {
            finish_variant(variant.take(), &mut family, &mut families);
        }
        match head.keyword {
            "family" => {
                families.architectures.extend(family.take().map(FamilyDraft::finish));
                family = Some(FamilyDraft::of(tables, head, lines)?);
            }
            "decoder" => match &mut family {
                Some(family) => family.row.decoder = Some(plan(lines)),
                None => return Err(head.fault("a decoder before the first [family NAME]")),
            },
            "gguf" => variant = Some(VariantDraft::of(tables, head, lines)?),
            "class" => match &mut variant {
                Some(variant) => variant.classes.push(class(tables, head, lines)?),
                None => return Err(head.fault("a class before the first [gguf NAME]")),
            },
            "modules" => {
                let modules = lines.iter().map(modules).collect::<Parsed<Vec<_>>>()?;
                families.modules.extend(modules);
            }
            _ => {
                let known = "canonical, tensors, keys, config, optional, prefixes, renames, family, decoder, gguf, class or modules";
                return Err(head.fault(format!("no such section, but {known}")));
            }
        }
    }
    finish_variant(variant, &mut family, &mut families);
    families.architectures.extend(family.map(FamilyDraft::finish));
    Ok(families)
}

/// The plan of a decoder. `families/decoder.lines` has the forms of its lines.
fn plan(lines: &[Line]) -> &'static [PlanLine] {
    let line = |line: &Line| PlanLine { block: line.keyword, values: line.list(0) };
    lines.iter().map(line).collect::<Vec<_>>().leak()
}

fn finish_variant(
    variant: Option<VariantDraft>,
    family: &mut Option<FamilyDraft>,
    families: &mut Families,
) {
    let Some(variant) = variant else { return };
    let is_own = !variant.is_elsewhere;
    let variant = variant.finish();
    match family {
        Some(family) => {
            let add = |names: &mut Vec<&'static str>, name| {
                if !names.contains(&name) {
                    names.push(name);
                }
            };
            variant.hf.iter().for_each(|name| add(&mut family.hf, name));
            if is_own {
                add(&mut family.gguf, variant.gguf);
            }
            family.variants.push(variant);
        }
        None => families.nameless.push(variant),
    }
}

/// A family whose section is being read.
struct FamilyDraft {
    row: Architecture,
    gguf: Vec<&'static str>,
    hf: Vec<&'static str>,
    instead: Vec<Instead>,
    rules: Vec<&'static [NameRule]>,
    optional: Vec<&'static str>,
    prefixes: Vec<Prefix>,
    renames: Vec<Rename>,
    conditional_names: Vec<ConditionalName>,
    auxiliary: Vec<(&'static str, &'static str)>,
    next_layer: Vec<(&'static str, &'static str)>,
    keyed: Vec<KeyedTensor>,
    factors: Vec<FactorRule>,
    mlx_readers: Vec<(&'static str, &'static str)>,
    mlx_modules: Vec<MlxModules>,
    variants: Vec<Variant>,
    own_keys: Vec<(&'static str, &'static [&'static str])>,
}

impl FamilyDraft {
    fn of(tables: &Tables, head: &Line, lines: &[Line]) -> Parsed<Self> {
        let mut draft = Self {
            row: Architecture {
                name: head.word(0)?,
                canonical: tables.canonical,
                ..Architecture::EMPTY
            },
            gguf: Vec::new(),
            hf: Vec::new(),
            instead: Vec::new(),
            rules: Vec::new(),
            optional: Vec::new(),
            prefixes: Vec::new(),
            renames: Vec::new(),
            conditional_names: Vec::new(),
            auxiliary: Vec::new(),
            next_layer: Vec::new(),
            keyed: Vec::new(),
            factors: Vec::new(),
            mlx_readers: Vec::new(),
            mlx_modules: Vec::new(),
            variants: Vec::new(),
            own_keys: Vec::new(),
        };
        for line in lines {
            if !(draft.flag(line) || draft.fact(tables, line)? || draft.row(tables, line)?) {
                return Err(line.fault("no such line of a family"));
            }
        }
        Ok(draft)
    }

    /// Lines without values.
    fn flag(&mut self, line: &Line) -> bool {
        let row = &mut self.row;
        let flag = match line.keyword {
            "mlx-keeps-tower-names" => &mut row.mlx_keeps_tower_names,
            "outer-head" => &mut row.outer_head,
            "encodes" => &mut row.encodes,
            "counts-encoder-layers" => &mut row.counts_encoder_layers,
            "requires-shared-keys" => &mut row.requires_shared_keys,
            "exceeds-f16" => &mut row.exceeds_f16,
            _ => return false,
        };
        *flag = true;
        true
    }

    /// Lines that occur once.
    fn fact(&mut self, tables: &Tables, line: &Line) -> Parsed<bool> {
        let row = &mut self.row;
        match line.keyword {
            "summary" => row.summary = line.text_from(0),
            "rope" => {
                let layouts = [RopeLayout::HalfSplit, RopeLayout::Interleaved, RopeLayout::None];
                let name = line.word(0)?;
                let named = layouts.into_iter().find(|rope| rope.name() == name);
                row.rope =
                    named.ok_or_else(|| line.fault("half_split, interleaved or none is needed"))?;
            }
            "mlx" => row.mlx = tables.tensors(line, line.word(0)?)?,
            "publisher" => row.publisher = tables.tensors(line, line.word(0)?)?,
            "written" => row.conditional_rules = tables.tensors(line, line.word(0)?)?,
            "joined-experts" => row.joined_experts = line.list(0),
            "mlx-uncast" => row.mlx_uncast = line.list(0),
            "rows-before-positions" => {
                let rows = |step| if let Step::Rows(step) = step { Some(step) } else { None };
                row.rows_before_positions = Some(tables.step(line, line.word(0)?, rows)?);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Lines that may occur several times.
    fn row(&mut self, tables: &Tables, line: &Line) -> Parsed<bool> {
        match line.keyword {
            "gguf" => self.gguf.extend(line.from(0)),
            "hf" => self.hf.extend(line.from(0)),
            "tensors" => {
                let rules = line.from(0).map(|name| tables.tensors(line, name));
                self.rules.extend(rules.collect::<Parsed<Vec<_>>>()?);
            }
            "optional" => self.optional.extend(tables.all_optional(line)?),
            "instead" => {
                let [architecture, when, condition] = line.words()?;
                if when != "when" {
                    return Err(line.fault("FAMILY when FUNCTION is needed"));
                }
                let is = |step| if let Step::Is(step) = step { Some(step) } else { None };
                let when = tables.step(line, condition, is)?;
                self.instead.push(Instead { when, architecture });
            }
            "prefixes" => self.prefixes.extend(tables.prefixes(line, line.word(0)?)?),
            "prefix" => self.prefixes.push(prefix(line, line.word(0)?, line.from(1))?),
            "rename" => {
                let words: Vec<&'static str> = line.from(0).collect();
                self.renames.push(tables.rename(line, &words)?);
            }
            "renames" => {
                for name in line.from(0) {
                    self.renames.extend(tables.renames(line, name)?);
                }
            }
            "named" => {
                let [name, word, usual, condition, beside] = line.words()?;
                let present = match (word, condition) {
                    ("for", "with") => true,
                    ("for", "without") => false,
                    _ => return Err(line.fault("NAME for NAME with or without TENSOR is needed")),
                };
                tables.tensor(line, beside)?;
                self.conditional_names.push(ConditionalName { beside, present, usual, name });
            }
            "reads" => {
                let (name, _) = (line.word(0)?, line.word(1)?);
                if key(name).is_none() {
                    return Err(line.fault(format!("{name} is no number of the config")));
                }
                self.own_keys.push((name, line.list(1)));
            }
            "next-layer" => {
                let [stored, instead] = line.words()?;
                self.next_layer.push((stored, instead));
            }
            "auxiliary" => self.auxiliary.push((line.word(0)?, line.text_from(1))),
            "keyed" => {
                tables.tensor(line, line.word(0)?)?;
                let shape = (2..line.words.len()).map(|index| number(line, index));
                self.keyed.push(KeyedTensor {
                    canonical: line.word(0)?,
                    key: line.word(1)?,
                    shape: shape.collect::<Parsed<Vec<u64>>>()?.leak(),
                });
            }
            "factor" => {
                tables.tensor(line, line.word(0)?)?;
                let factor = FactorRule { canonical: line.word(0)?, keys: line.list(1) };
                self.factors.push(factor);
            }
            "mlx-reader" => self.mlx_readers.push((line.word(0)?, line.word(1)?)),
            "mlx-module" => self.mlx_modules.push(modules(line)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn finish(self) -> &'static Architecture {
        Box::leak(Box::new(Architecture {
            gguf: self.gguf.leak(),
            hf: self.hf.leak(),
            rules: self.rules.leak(),
            instead: self.instead.leak(),
            optional: self.optional.leak(),
            prefixes: self.prefixes.leak(),
            renames: self.renames.leak(),
            conditional_names: self.conditional_names.leak(),
            auxiliary: self.auxiliary.leak(),
            next_layer: self.next_layer.leak(),
            keyed: self.keyed.leak(),
            factors: self.factors.leak(),
            mlx_readers: self.mlx_readers.leak(),
            mlx_modules: self.mlx_modules.leak(),
            variants: self.variants.leak(),
            own_keys: OwnKeys(self.own_keys.leak()),
            ..self.row
        }))
    }
}

/// A line of mlx-lm's choices for modules.
fn modules(line: &Line) -> Parsed<MlxModules> {
    let choice = match line.word(0)? {
        "usual" => MlxChoice::Usual,
        "kept" => MlxChoice::Kept,
        "eight_bits" => MlxChoice::EightBits,
        "bare" => MlxChoice::Bare,
        _ => return Err(line.fault("usual, kept, eight_bits or bare is needed")),
    };
    let path = line.word(2)?;
    let path = match line.word(1)? {
        "ends_with" => MlxPath::EndsWith(path),
        "contains" => MlxPath::Contains(path),
        "is" => MlxPath::Is(path),
        _ => return Err(line.fault("ends_with, contains or is, is needed")),
    };
    Ok(MlxModules { models: line.list(3), path, choice })
}

/// A variant whose section is being read.
struct VariantDraft {
    variant: Variant,
    /// Whether files with this name belong to another family.
    is_elsewhere: bool,
    when: Vec<ConfigCondition>,
    keys: Slices<KeyRule>,
    classes: Vec<Class>,
    tokenizer: Vec<(&'static str, &'static [&'static str])>,
    llama_quantize: Vec<(&'static str, &'static [&'static str])>,
    defaults: Vec<FamilyDefault>,
}

impl VariantDraft {
    fn of(tables: &Tables, head: &Line, lines: &[Line]) -> Parsed<Self> {
        // As in tables of names, `-` stands for what GGUF does not have.
        let name = Some(head.word(0)?).filter(|name| *name != "-").unwrap_or_default();
        let mut draft = Self {
            variant: Variant { gguf: name, ..Variant::EMPTY },
            is_elsewhere: name.is_empty(),
            when: Vec::new(),
            keys: Slices::new(),
            classes: Vec::new(),
            tokenizer: Vec::new(),
            llama_quantize: Vec::new(),
            defaults: Vec::new(),
        };
        for line in lines {
            draft.line(tables, line)?;
        }
        Ok(draft)
    }

    fn line(&mut self, tables: &Tables, line: &Line) -> Parsed<()> {
        let variant = &mut self.variant;
        match line.keyword {
            "hf" => variant.hf = line.list(0),
            "reason" => variant.refused = Some(line.word(0)?),
            "family" => {
                line.word(0)?;
                self.is_elsewhere = true;
            }
            "architectures" => variant.class = Some(line.word(0)?),
            "when" => {
                let is = |step| if let Step::Is(step) = step { Some(step) } else { None };
                self.when.push(condition(tables, line, is)?);
            }
            "rope-freqs" => {
                let frequencies =
                    |step| if let Step::Frequencies(step) = step { Some(step) } else { None };
                variant.rope_freqs = Some(tables.step(line, line.word(0)?, frequencies)?);
            }
            "llama3-factors" => variant.llama3_factors = true,
            "mlx-config" => {
                let mlx = |step| if let Step::Mlx(step) = step { Some(step) } else { None };
                variant.mlx_config = Some(tables.step(line, line.word(0)?, mlx)?);
            }
            "default" => self.defaults.push(default(line, false)?),
            "gguf-default" => self.defaults.push(default(line, true)?),
            "tokenizer" => self.tokenizer.push(exception(line, Exceptions::OF_TOKENIZER)?),
            "llama-quantize" => {
                self.llama_quantize.push(exception(line, Exceptions::OF_LLAMA_QUANTIZE)?);
            }
            "keys" => {
                for name in line.from(0) {
                    self.keys.include(tables.keys(line, name)?);
                }
            }
            _ => self.keys.push(tables.key_rule(line)?),
        }
        Ok(())
    }

    fn finish(self) -> Variant {
        let mut variant = self.variant;
        variant.when = self.when.leak();
        variant.keys = self.keys.finish();
        variant.classes = self.classes.leak();
        variant.tokenizer = Exceptions(self.tokenizer.leak());
        variant.llama_quantize = Exceptions(self.llama_quantize.leak());
        variant.defaults = self.defaults.leak();
        variant
    }
}

fn class(tables: &Tables, head: &Line, lines: &[Line]) -> Parsed<Class> {
    let [model_type, class] = head.words()?;
    let mut class = Class { model_type, class, ..Class::EMPTY };
    let (mut when, mut rules) = (Vec::new(), Slices::<ConfigRule>::new());
    for line in lines {
        match line.keyword {
            "when" => {
                let fits = |step| if let Step::Fits(step) = step { Some(step) } else { None };
                when.push(condition(tables, line, fits)?);
            }
            "within" => class.within = Some(line.word(0)?),
            "config" => {
                for name in line.from(0) {
                    rules.include(tables.config(line, name)?);
                }
            }
            _ => rules.push(tables.config_rule(line)?),
        }
    }
    class.when = when.leak();
    class.rules = rules.finish();
    Ok(class)
}

/// A line `when [not] FUNCTION` or `when has TENSOR`.
fn condition<F>(tables: &Tables, line: &Line, kind: fn(Step) -> Option<F>) -> Parsed<Condition<F>> {
    match (line.word(0)?, line.words.get(1)) {
        ("not", Some(word)) => tables.step(line, word.text, kind).map(Condition::Not),
        ("has", Some(word)) => tables.tensor(line, word.text).map(Condition::Has),
        ("lacks", Some(word)) => tables.tensor(line, word.text).map(Condition::Lacks),
        (name, _) => tables.step(line, name, kind).map(Condition::Is),
    }
}

/// Tables of rows, and rows between them.
struct Slices<T: 'static> {
    slices: Vec<&'static [T]>,
    rows: Vec<T>,
}

impl<T> Slices<T> {
    fn new() -> Self {
        Self { slices: Vec::new(), rows: Vec::new() }
    }

    fn push(&mut self, row: T) {
        self.rows.push(row);
    }

    fn include(&mut self, table: &'static [T]) {
        if !self.rows.is_empty() {
            self.slices.push(std::mem::take(&mut self.rows).leak());
        }
        self.slices.push(table);
    }

    fn finish(mut self) -> &'static [&'static [T]] {
        if !self.rows.is_empty() {
            self.slices.push(self.rows.leak());
        }
        self.slices.leak()
    }
}

/// A value that the files of a family leave out, and its source if reports name another one.
fn default(line: &Line, only_gguf: bool) -> Parsed<FamilyDefault> {
    let (row, value) = (line.word(0)?, value(line, 1)?);
    let found = key(row).ok_or_else(|| line.fault(format!("{row} is no value of the config")))?;
    (found.value)(ConfigValue::Json(&value.into()))
        .map_err(|fault| line.fault(format!("{row}: {fault}")))?;
    Ok(FamilyDefault { row, value, source: line.from(2).next(), only_gguf })
}

/// An exception for one program, which has one of these names.
fn exception(line: &Line, names: &[&str]) -> Parsed<(&'static str, &'static [&'static str])> {
    let name = line.word(0)?;
    if !names.contains(&name) {
        return Err(line.fault(format!("no exception \"{name}\", but {}", names.join(", "))));
    }
    Ok((name, line.list(1)))
}
