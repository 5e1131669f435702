//! A model that is ready to run, and what it remembers while it does.

use std::sync::Arc;

use weighbridge::Model;
use weighbridge::arch::{NormKind, Resolution};
use weighbridge::bytes::Text;

use crate::attention::Pass;
use crate::cache::LayerCache;
use crate::device::{Engine, Loading};
use crate::error::{Error, Result};
use crate::layer::{
    Context, DECODER, ENCODER, ENCODER_SUM, Layer, NORMED_SUM, OWN_NORMS, load_layers, run, turned,
};
use crate::masked::MaskedWords;
use crate::math::{Function, softmax};
use crate::plan::{Arrangement, NormPlan, Plan, TextEncoderPlan};
use crate::rows::Rows;
use crate::sound::SoundEncoder;
use crate::streams::Ends;
use crate::weight::{Loader, Norm, Weight};

/// A model that is ready to run. Its matrices stay packed in their files.
///
/// ```
/// use weighbridge::Model;
/// use weighbridge_reference::Reference;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let model = Model::open("../assets/sample/sample-Q8_0.gguf")?;
/// let reference = Reference::new(&model)?;
/// let mut session = reference.session();
/// let logits = session.logits(&[0, 422, 419])?;
/// assert_eq!((logits.len(), logits.width()), (3, 512));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Reference {
    plan: Plan,
    embedding: Weight,
    beside: BesideTokens,
    segments: Option<Weight>,
    /// Added to each embedding.
    first_rows: Vec<Rows>,
    /// From the width of embeddings to that of the residual stream.
    projection: Option<Weight>,
    /// The rows that follow each embedding before it is projected.
    joined: Vec<Rows>,
    layers: Vec<Layer>,
    output_norm: Option<Norm>,
    /// The inverse of `projection`.
    output_projection: Option<Weight>,
    /// `None` where the embedding serves.
    output: Option<Weight>,
    /// That of scores by the embedding.
    output_bias: Option<Rows>,
    /// The layers' own embeddings.
    per_layer: Option<LayerEmbeddings>,
    streams: Option<Ends>,
    sound: Option<SoundEncoder>,
    text: Option<TextEncoder>,
    pooler: Option<Weight>,
    masked_words: Option<MaskedWords>,
    engine: Option<Arc<Engine>>,
}

/// The vectors that the embedding of tokens is joined with.
#[derive(Debug)]
struct BesideTokens {
    /// Factor of the vectors of tokens.
    scale: f32,
    /// Whether it is normed before positions are added.
    normed_first: bool,
    positions: Option<Weight>,
    norm: Option<Norm>,
}

/// The encoder of text beside a decoder.
#[derive(Debug)]
struct TextEncoder {
    /// `None` where that of the decoder serves.
    embedding: Option<Weight>,
    beside: BesideTokens,
    layers: Vec<Layer>,
    norm: Option<Norm>,
}

impl TextEncoder {
    fn load(loader: Loader<'_>, text: &TextEncoderPlan, plan: &Plan) -> Result<Self> {
        let (dim, norm) = (plan.dim, plan.norm);
        let sums = plan.arrangement == Arrangement::NormedSum;
        let names = if sums { ENCODER_SUM } else { ENCODER };
        Ok(Self {
            embedding: loader.weight_if("enc.token_embedding", plan.embedding_dim)?,
            beside: BesideTokens {
                scale: text.embedding_scale,
                normed_first: false,
                positions: loader.weight_if("enc.position_embedding", dim)?,
                norm: loader.norm_if("enc.token_embedding_norm", dim, norm)?,
            },
            layers: load_layers(loader, names, plan, &text.layers, dim)?,
            norm: match sums {
                true => None,
                false => Some(loader.norm("enc.output_norm", dim, norm)?),
            },
        })
    }
}

/// The embeddings that each layer has of its own (Gemma 3n and 4).
#[derive(Debug)]
struct LayerEmbeddings {
    embedding: Weight,
    projection: Weight,
    norm: Norm,
    width: usize,
}

/// The output of an encoder of text.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EncodedText {
    /// The residual stream behind the last layer, for each position.
    pub hidden: Rows,
    /// The output of the pooler for the first position, if the model has one.
    pub pooled: Option<Vec<f32>>,
    /// For each position the scores of all tokens, where the model has a head for masked words.
    pub logits: Option<Rows>,
}

/// A sequence that grows: a model, and the keys and values of the positions so far.
#[derive(Clone, Debug)]
pub struct Session<'r> {
    reference: &'r Reference,
    caches: Vec<LayerCache>,
    encoded: Vec<LayerCache>,
    length: usize,
    /// The number of tokens that have the position before the first.
    padded: usize,
}

impl Reference {
    /// Makes a model ready: reads its config, its norms and its biases, and checks the shapes of its
    /// matrices.
    ///
    /// # Errors
    ///
    /// `Unsupported` if its family or its config asks for what no operation computes; `Mismatch` if it
    /// lacks tensors or they have other shapes than the config says; `Model` if its files cannot be
    /// read.
    pub fn new(model: &Model) -> Result<Self> {
        Self::with_plan(model, Plan::of(model)?)
    }

    /// As [`new`](Self::new), with a plan that the caller has changed: numbers that a container cannot
    /// say.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn with_plan(model: &Model, plan: Plan) -> Result<Self> {
        Self::load(model, plan, None)
    }

    /// As [`with_plan`](Self::with_plan), on a GPU, which holds the matrices as they are packed. Values
    /// stay there from the embedding to the scores, except for what no step computes: latent and linear
    /// attention, state spaces, biases of distances, experts in groups, alternating updates. These are
    /// computed by the CPU.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new); `Model` if the GPU fails or lacks memory.
    #[cfg(feature = "gpu")]
    pub fn on_gpu(model: &Model, plan: Plan, gpu: Arc<weighbridge_gpu::Gpu>) -> Result<Self> {
        let loading = Loading::new(model, gpu)?;
        let reference = Self::load(model, plan, Some(&loading))?;
        loading.engine().check()?;
        Ok(reference)
    }

    /// The number of times that values were copied from the GPU to the host.
    #[cfg(feature = "gpu")]
    pub fn copies_from_gpu(&self) -> usize {
        self.engine.as_ref().map_or(0, |engine| engine.copies())
    }

    fn load(model: &Model, plan: Plan, device: Option<&Loading>) -> Result<Self> {
        let Resolution { missing, unknown, .. } = model.resolution()?;
        if !missing.is_empty() {
            return Err(Error::Mismatch(format!("the model lacks {}", missing.join(", "))));
        }
        check_named(model, unknown)?;
        let loader = Loader::new(model, device);
        let (dim, width, norm) = (plan.dim, plan.embedding_dim, plan.norm);
        let added = if plan.projected_first { dim } else { width };
        let joined_rows = plan.joined_embeddings.iter().map(|name| {
            let lacks = || Error::Mismatch(format!("{name}.weight is missing"));
            loader.first_row(name)?.ok_or_else(lacks)
        });
        let joined_rows = joined_rows.collect::<Result<Vec<_>>>()?;
        let joined: usize = joined_rows.iter().map(Rows::width).sum();
        let names = match plan.arrangement {
            Arrangement::NormedSum if loader.has("layers.0.attention_norm.weight") => OWN_NORMS,
            Arrangement::NormedSum => NORMED_SUM,
            _ => DECODER,
        };
        let layers = load_layers(loader, names, &plan, &plan.layers, dim)?;
        let per_layer = match plan.per_layer_dim {
            Some(width) => Some(LayerEmbeddings::load(loader, dim, width, &plan)?),
            None => None,
        };
        let embedding = loader.weight("token_embedding", width)?;
        Ok(Self {
            beside: BesideTokens {
                scale: plan.embedding_scale,
                normed_first: plan.normed_first,
                positions: loader.weight_if("position_embedding", added)?,
                norm: match loader.norm_if("token_embedding_norm", added, norm)? {
                    None if plan.norms_embedding => Some(Norm::bare(added, norm)),
                    found => found,
                },
            },
            segments: loader.weight_if("token_type_embedding", added)?,
            first_rows: {
                let rows = plan.first_rows.iter().map(|name| loader.first_row(name).transpose());
                rows.flatten().collect::<Result<_>>()?
            },
            projection: loader.weight_if("embedding_projection", width + joined)?,
            joined: joined_rows,
            layers,
            output_norm: match plan.arrangement {
                Arrangement::NormedSum => None,
                _ => Some(loader.norm("output_norm", dim, norm)?),
            },
            output_projection: loader.weight_if("output_projection", dim)?,
            output: loader.weight_of("output", &[dim, width])?,
            output_bias: loader.output_bias(embedding.outputs())?,
            per_layer,
            streams: plan.active_stream.map(|_| Ends::load(loader, dim)).transpose()?,
            sound: match &plan.encoder {
                Some(sound) => Some(SoundEncoder::load(loader, sound, &plan)?),
                None => None,
            },
            text: match &plan.text_encoder {
                Some(text) => Some(TextEncoder::load(loader, text, &plan)?),
                None => None,
            },
            pooler: loader.weight_if("pooler", dim)?,
            masked_words: MaskedWords::load_if(
                loader,
                &embedding,
                dim,
                NormPlan::new(NormKind::Layer, norm.eps),
                &plan,
            )?,
            engine: device.map(|device| Arc::clone(device.engine())),
            embedding,
            plan,
        })
    }

    /// The plan of the model.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The number of tokens that the model has embeddings of.
    pub fn vocabulary(&self) -> usize {
        self.embedding.outputs()
    }

    /// The rows in host memory, and the error of the GPU if it failed on the way.
    fn settled(&self, rows: Rows) -> Result<Rows> {
        if let Some(engine) = &self.engine {
            rows.values();
            engine.check()?;
        }
        Ok(rows)
    }

    /// A sequence without positions.
    pub fn session(&self) -> Session<'_> {
        let caches = vec![LayerCache::default(); self.layers.len()];
        Session { reference: self, caches, encoded: Vec::new(), length: 0, padded: 0 }
    }

    /// The output of the encoder of sound for a spectrum: a row for each band, a column for each frame.
    ///
    /// # Errors
    ///
    /// `Unsupported` if the model has no such encoder; `Input` if it takes spectra of another size.
    pub fn encode_sound(&self, spectrum: &Rows) -> Result<Rows> {
        let sound = self.sound.as_ref();
        let sound = sound
            .ok_or_else(|| Error::Unsupported("the model has no encoder of sound".to_owned()))?;
        self.settled(sound.of(spectrum)?)
    }

    /// A sequence without positions, that attends to what [`encode_sound`](Self::encode_sound) or
    /// [`encode`](Self::encode) gave.
    ///
    /// # Errors
    ///
    /// `Model` if weights cannot be read; `Mismatch` if `encoded` has another width.
    pub fn session_of(&self, encoded: &Rows) -> Result<Session<'_>> {
        let remembered = self.layers.iter().map(|layer| layer.remember(encoded));
        Ok(Session { encoded: remembered.collect::<Result<_>>()?, ..self.session() })
    }

    /// The output of an encoder of text, also one next to a decoder. `segments` says of each token which of
    /// the texts it belongs to; without, all belong to the first.
    ///
    /// # Errors
    ///
    /// `Unsupported` if the model is no encoder of text; `Input` for a token or a position that it
    /// does not have.
    pub fn encode(&self, tokens: &[u32], segments: Option<&[u32]>) -> Result<EncodedText> {
        if let Some(TextEncoder { embedding, beside, layers, norm }) = &self.text {
            let mut caches = vec![LayerCache::default(); layers.len()];
            let embedding = embedding.as_ref().unwrap_or(&self.embedding);
            let x = embedding.rows_of(tokens, "token")?;
            let x = self.embed(x, (tokens, 0), None, beside)?;
            let mut hidden = run(layers, &self.plan.ropes, x, 0, &mut caches)?;
            norm.iter().for_each(|norm| norm.apply(&mut hidden));
            return Ok(EncodedText { hidden: self.settled(hidden)?, pooled: None, logits: None });
        }
        if !self.plan.encodes() {
            return Err(Error::Unsupported("the model is no encoder of text".to_owned()));
        }
        let x = self.embedding.rows_of(tokens, "token")?;
        let mut hidden = self.embed(x, (tokens, 0), segments, &self.beside)?;
        // Of layers that are run several times, each is repeated before the next one.
        let at_once = if self.plan.runs == 1 { self.layers.len() } else { 1 };
        for layers in self.layers.chunks(at_once.max(1)) {
            for _ in 0..self.plan.runs {
                let mut caches = vec![LayerCache::default(); self.layers.len()];
                hidden = run(layers, &self.plan.ropes, hidden, 0, &mut caches)?;
            }
        }
        self.output_norm.iter().for_each(|norm| norm.apply(&mut hidden));
        let pooled = match &self.pooler {
            Some(pooler) => {
                let mut first = pooler.of(&hidden.first())?;
                first.apply(Function::Tanh);
                Some(first.values().to_vec())
            }
            None => None,
        };
        let has_head = self.masked_words.is_some() || self.plan.scores_tokens;
        let logits = has_head.then(|| self.scores(&hidden)).transpose()?;
        Ok(EncodedText { hidden: self.settled(hidden)?, pooled, logits })
    }

    /// Embeddings of tokens, their positions and the texts that they belong to, without `segments` the
    /// first one.
    fn embed(
        &self,
        mut x: Rows,
        (tokens, start): (&[u32], usize),
        segments: Option<&[u32]>,
        beside: &BesideTokens,
    ) -> Result<Rows> {
        if beside.scale != 1.0 {
            x.scale(beside.scale);
        }
        if let Some(mask) = self.plan.masked {
            x.scale_rows(&shares_of_unmasked(tokens, mask));
        }
        if self.plan.projected_first {
            x = self.projected(x)?;
        }
        if beside.normed_first {
            beside.norm.iter().for_each(|norm| norm.apply(&mut x));
        }
        let positions = self.positions_of(tokens, start, beside.positions.as_ref())?;
        positions.iter().for_each(|rows| x.add(rows, 1.0));
        self.first_rows.iter().for_each(|row| x.add_row(row, 0));
        if let Some(weight) = &self.segments {
            let first = vec![0; tokens.len()];
            let rows = weight.rows_of(segments.unwrap_or(&first), "segment")?;
            if rows.len() != x.len() {
                let fault = format!("{} segments for {} tokens", rows.len(), x.len());
                return Err(Error::Input(fault));
            }
            x.add(&rows, 1.0);
        }
        if !beside.normed_first {
            beside.norm.iter().for_each(|norm| norm.apply(&mut x));
        }
        if self.plan.projected_first { Ok(x) } else { self.projected(x) }
    }

    /// Embeddings as wide as the residual stream.
    fn projected(&self, x: Rows) -> Result<Rows> {
        let Some(projection) = &self.projection else { return Ok(x) };
        if self.joined.is_empty() {
            return projection.of(&x);
        }
        let width = x.width() + self.joined.iter().map(Rows::width).sum::<usize>();
        let more = || self.joined.iter().flat_map(Rows::values);
        let values = x.rows().flat_map(|row| row.iter().chain(more())).copied().collect();
        projection.of(&Rows::new(values, width))
    }

    /// Whether a token has the position before the first.
    fn is_padding(&self, token: u32) -> bool {
        self.plan.padding == Some(token)
    }

    /// The rows that are added for positions from `start` on, learned or computed.
    fn positions_of(
        &self,
        tokens: &[u32],
        start: usize,
        learned: Option<&Weight>,
    ) -> Result<Option<Rows>> {
        let count = tokens.len();
        if let Some(longest) = self.plan.longest.filter(|longest| start + count > *longest) {
            let fault = format!("more than {longest} positions: the class then attends to blocks");
            return Err(Error::Unsupported(fault));
        }
        let first = start + self.plan.first_position;
        if let Some(positions) = learned {
            let mut next = first;
            let number = |token: &u32| {
                if self.is_padding(*token) {
                    return u32::try_from(self.plan.first_position.saturating_sub(1));
                }
                next += 1;
                u32::try_from(next - 1)
            };
            let numbers = tokens.iter().map(number).collect::<Result<Vec<_>, _>>();
            let numbers = numbers.map_err(|_| Error::Input(format!("position {first}")))?;
            if next > positions.outputs() {
                return Err(Error::Input(format!(
                    "{} tokens, but the model has positions for {}: shorten the text",
                    start + count,
                    positions.outputs().saturating_sub(self.plan.first_position)
                )));
            }
            return positions.rows_of(&numbers, "position").map(Some);
        }
        Ok(self.plan.sinusoids.map(|waves| waves.rows(first, count, self.plan.dim)))
    }

    /// The residual stream behind the last norm, for new tokens.
    fn hidden(&self, session: &mut Session<'_>, tokens: &[u32]) -> Result<Rows> {
        if self.plan.encodes() {
            let fault = "the model encodes a text as a whole, and does not continue it";
            return Err(Error::Unsupported(fault.to_owned()));
        }
        let has_encoder = self.plan.encoder.is_some() || self.plan.text_encoder.is_some();
        if has_encoder && session.encoded.is_empty() {
            let fault = "a decoder that needs what its encoder gives";
            return Err(Error::Input(fault.to_owned()));
        }
        let (start, length) = (session.length, session.length + tokens.len());
        let x = self.embedding.rows_of(tokens, "token")?;
        let x = self.embed(x, (tokens, start - session.padded), None, &self.beside)?;
        session.padded += tokens.iter().filter(|token| self.is_padding(**token)).count();
        let own = self.per_layer.as_ref().map(|own| own.of(tokens, &x)).transpose()?;
        let ropes = turned(&self.plan.ropes, start, length);
        let first = self.layers.iter().any(Layer::adds_embedding).then(|| x.clone());
        let mut context = Context {
            pass: &Pass { start, ropes: &ropes },
            caches: &mut session.caches,
            encoded: &session.encoded,
            per_layer: own.as_ref(),
            embedding: first.as_ref(),
        };
        let mut x = match &self.streams {
            Some(ends) => {
                let mut streams = ends.split(x)?;
                for layer in &self.layers {
                    layer.apply_to_streams(&mut streams, &mut context)?;
                }
                ends.join(&streams)?
            }
            None => {
                let mut x = x;
                for layer in &self.layers {
                    layer.apply(&mut x, &mut context)?;
                }
                x
            }
        };
        session.length = length;
        self.output_norm.iter().for_each(|norm| norm.apply(&mut x));
        Ok(x)
    }

    /// The scores of all tokens, for some rows of [`Session::hidden`].
    ///
    /// # Errors
    ///
    /// `Mismatch` if the rows have another width; `Model` if weights cannot be read.
    pub fn scores(&self, hidden: &Rows) -> Result<Rows> {
        self.settled(self.scored(hidden)?)
    }

    fn scored(&self, hidden: &Rows) -> Result<Rows> {
        if let Some(head) = &self.masked_words {
            return head.of(hidden, &self.embedding);
        }
        let projected = self.output_projection.as_ref().map(|own| own.of(hidden)).transpose()?;
        let hidden = projected.as_ref().unwrap_or(hidden);
        let mut logits = self.output.as_ref().unwrap_or(&self.embedding).of(hidden)?;
        self.output_bias.iter().for_each(|bias| logits.add_row(bias, 0));
        if self.plan.logit_scale != 1.0 {
            logits.scale(self.plan.logit_scale);
        }
        if let Some(cap) = self.plan.logit_softcap {
            logits.apply(Function::Cap(cap));
        }
        Ok(logits)
    }
}

/// Refuses a model with tensors that have no meaning: it would not be computed with them.
fn check_named(model: &Model, unknown: &[String]) -> Result<()> {
    let Some(first) = unknown.first() else { return Ok(()) };
    // Arrays of a scheme that is not decoded have no names either.
    if let Some(error) = model.unknown_values() {
        return Err(error.into());
    }
    let config = model.document("config.json");
    let class = config.and_then(|json| json.get("architectures")?.as_array()?.first()?.as_str());
    let class = class.filter(|class| class.ends_with("Classification"));
    let class = class.map_or_else(String::new, |class| {
        let class = Text::new(class.as_bytes()).brief();
        format!(": the head of {class}, whose scores are not computed")
    });
    let fault = match unknown.len() {
        1 => format!("a tensor without a canonical name, {first}{class}"),
        count => format!("{count} tensors without a canonical name, {first} first{class}"),
    };
    Err(Error::Unsupported(fault))
}

/// The factors of embeddings: those of masked tokens are left out, and the others are scaled by the share
/// of tokens that was not masked in training, 0.15 * 0.8 of which were, over that of this text.
#[expect(clippy::cast_precision_loss, reason = "counts of tokens")]
fn shares_of_unmasked(tokens: &[u32], mask: u32) -> Rows {
    let unmasked = tokens.iter().filter(|token| **token != mask).count();
    let share = (1.0 - 0.15 * 0.8) * tokens.len() as f32 / unmasked.max(1) as f32;
    let factors = tokens.iter().map(|token| if *token == mask { 0.0 } else { share });
    Rows::new(factors.collect(), 1)
}

impl LayerEmbeddings {
    fn load(loader: Loader<'_>, dim: usize, width: usize, plan: &Plan) -> Result<Self> {
        let all = plan.layers.len() * width;
        Ok(Self {
            embedding: loader.weight("per_layer_embedding", all)?,
            projection: loader.sized("per_layer_model_projection", all, dim)?,
            norm: loader.norm("per_layer_projection_norm", width, plan.norm)?,
            width,
        })
    }

    /// The embeddings for each layer, one after another in each row.
    #[expect(clippy::cast_precision_loss, reason = "widths")]
    fn of(&self, tokens: &[u32], embedded: &Rows) -> Result<Rows> {
        let mut own = self.projection.of(embedded)?;
        own.scale((embedded.width() as f32).sqrt().recip());
        self.norm.apply(&mut own);
        own.add(&self.embedding.rows_of(tokens, "token")?, (self.width as f32).sqrt());
        own.scale(std::f32::consts::FRAC_1_SQRT_2);
        Ok(own)
    }
}

impl Session<'_> {
    /// Positions so far.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there are no positions yet.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Appends tokens, and gives for each the scores of those that could follow.
    ///
    /// # Errors
    ///
    /// `Input` for a token beyond the vocabulary or a position beyond the learned ones; `Unsupported`
    /// if the model does not continue texts; `Model` if weights cannot be read. The session is then of
    /// no further use.
    pub fn logits(&mut self, tokens: &[u32]) -> Result<Rows> {
        let hidden = self.reference.hidden(self, tokens)?;
        self.reference.scores(&hidden)
    }

    /// Appends tokens, and gives the residual stream behind the last norm for each. A row of it takes
    /// less memory than the scores of all tokens; [`Reference::scores`] computes these.
    ///
    /// # Errors
    ///
    /// As [`logits`](Self::logits).
    pub fn hidden(&mut self, tokens: &[u32]) -> Result<Rows> {
        let hidden = in_pool(|| self.reference.hidden(self, tokens))?;
        self.reference.settled(hidden)
    }

    /// As [`logits`](Self::logits), for the last token alone.
    ///
    /// # Errors
    ///
    /// As [`logits`](Self::logits).
    pub fn next(&mut self, tokens: &[u32]) -> Result<Vec<f32>> {
        in_pool(|| {
            let hidden = self.reference.hidden(self, tokens)?;
            Ok(self.reference.scores(&hidden.last())?.values().to_vec())
        })
    }

    /// Appends a prompt and the likeliest tokens behind it, `count` of them, and gives those.
    ///
    /// # Errors
    ///
    /// As [`logits`](Self::logits).
    pub fn greedy(&mut self, prompt: &[u32], count: usize) -> Result<Vec<u32>> {
        let mut found = Vec::new();
        let mut logits = self.next(prompt)?;
        while found.len() < count {
            let token = likeliest(&logits)?;
            found.push(token);
            if found.len() < count {
                logits = self.next(&[token])?;
            }
        }
        Ok(found)
    }
}

/// Runs on a thread of the pool: from any other, each product of matrices would wake one and wait for it.
fn in_pool<T: Send>(run: impl FnOnce() -> T + Send) -> T {
    rayon::scope(|_| run())
}

/// The token with the highest score, the first of equals.
///
/// # Errors
///
/// `Input` if there are no scores.
pub fn likeliest(logits: &[f32]) -> Result<u32> {
    let best = logits.iter().enumerate().rev().max_by(|(_, a), (_, b)| a.total_cmp(b));
    best.and_then(|(token, _)| u32::try_from(token).ok())
        .ok_or_else(|| Error::Input("no scores to choose a token by".to_owned()))
}

/// The probability of each token.
pub fn probabilities(logits: &[f32]) -> Vec<f32> {
    let mut all = logits.to_vec();
    softmax(&mut all, None);
    all
}
