//! Models of safetensors files and documents: a directory, a single file, or blobs in a store.

use super::Conversion;
use super::tensors::Share;
use crate::arch::Dialect;
use crate::container::Shards;
use crate::container::safetensors::{
    CorrectedScheme, STATED_FORMATS, corrected_document, corrected_scheme, left_over,
    stored_unquantized,
};
use crate::container::writer::{DocumentContent, DocumentKinds, NewDocument, Placement};
use crate::error::{Error, ErrorKind, Result};
use crate::json::{Json, Map};
use crate::metadata::KeyValues;
use crate::model::Model;
use crate::ollama::BlobModel;
use crate::ops::agreement::PlannedDirectory;
use crate::ops::dialect::keeps_names;
use crate::ops::verify::TAKEN_FOR_CODES;
use crate::ops::{experts, modules};
use crate::store::{Encoding, Store};
use crate::translate::{self, ConfigDocument, Documents};
use crate::write::{Builder, Method, OutTensor};

/// Names and contents of files.
type NamedFiles = Vec<(String, Vec<u8>)>;

/// The documents of a written model.
struct WrittenDocuments {
    config: Option<ConfigDocument>,
    others: NamedFiles,
    /// The documents that the container does not hold.
    absent: NamedFiles,
}

/// Whether a config names a scheme, which mlx-lm would apply to plain tensors or refuse.
fn states_scheme(config: Option<&ConfigDocument>) -> Result<bool> {
    let keys = config.map(ConfigDocument::keys).transpose()?;
    let scheme =
        |keys: &Map<String, Json>| keys.get("quantization_config")?.get("quant_method").cloned();
    Ok(keys.is_some_and(|keys| scheme(&keys).is_some()))
}

/// States the scheme in `config.json` as the codes have it, where that differs from what it says.
fn state_scheme(store: &Store, config: &mut ConfigDocument, builder: &mut Builder) -> Result<()> {
    let Some(CorrectedScheme { path: (model, key), config: scheme, notes }) =
        corrected_scheme(store)
    else {
        return Ok(());
    };
    let mut keys = config.keys()?.into_owned();
    let scheme = Json::Object(scheme);
    let holder = match model.strip_prefix('/') {
        Some(model) => keys.get_mut(model).and_then(Json::as_object_mut),
        None => Some(&mut keys),
    };
    holder.into_iter().for_each(|holder| drop(holder.insert(key.to_owned(), scheme.clone())));
    notes.into_iter().for_each(|note| builder.note(format!("config.json: {note}")));
    *config = ConfigDocument::Made(keys);
    Ok(())
}

impl Conversion<'_> {
    /// Builds a model of safetensors files and documents.
    pub(super) fn directory(&self) -> Result<Builder> {
        let Self { model, writer, options, .. } = *self;
        let store = model.store();
        let mut builder = Builder::with_writer(writer);
        builder.reads(store);
        let same = writer.keeps_schemes && model.resolution()?.dialect == writer.dialect;
        if !same || self.changes_some() {
            store.check_known()?;
        }
        let mut shares = self.shares(&mut builder)?;
        let WrittenDocuments { config, others, absent } = self.documents(&mut builder)?;
        let mut config = self.agreed(&mut shares, config, &mut builder)?;
        if let (Some(stated), Some(_)) = (&config, self.layers)
            && let Some(keys) = BlobModel::agreed(&*stated.keys()?, &mut builder)
        {
            config = Some(ConfigDocument::Made(keys));
        }
        let (mut why_plain, mut file_type) = (Vec::new(), None);
        for mut share in shares {
            let mut rules = self.rules(&share, config.as_ref(), &mut builder)?;
            file_type = rules.file_type();
            why_plain.extend(share.why_plain.take());
            self.push_share(share, &mut rules, &mut builder)?;
        }
        let left_over = left_over(store);
        if let Some(scheme) = &left_over {
            builder.note(format!(
                "config.json: the quantization is left out ({scheme}): no tensor is quantized"
            ));
        }
        let keeps_config = left_over.is_none()
            && builder.tensors().iter().all(|tensor| self.leaves_config_true(tensor))
            && (writer.dialect != Dialect::Mlx || !states_scheme(config.as_ref())?);
        if let (Some(stated), true, true) = (&mut config, keeps_config, writer.keeps_schemes) {
            state_scheme(store, stated, &mut builder)?;
            let unquantized = stored_unquantized(store);
            let note = unquantized.map(|found| format!("{}: {TAKEN_FOR_CODES}", found.fault()));
            note.into_iter().for_each(|note| builder.note(note));
        }
        let mut documents = Vec::new();
        if let Some(config) = config {
            let content = match (keeps_config, config) {
                (true, ConfigDocument::Stored(bytes)) => DocumentContent::Bytes(bytes),
                (true, ConfigDocument::Made(config)) => DocumentContent::Json(config),
                (false, config) => DocumentContent::Config(config.into_keys()?),
            };
            documents.push(NewDocument { content, ..NewDocument::new("config.json", Vec::new()) });
        }
        documents.extend(others.into_iter().map(|(name, bytes)| NewDocument::new(name, bytes)));
        documents.extend(modules::files(model, writer, self.decodes(), &mut builder)?);
        if keeps_config && writer.keeps_schemes {
            for (name, bytes) in translate::quantization_documents(store)? {
                let corrected = corrected_document(store, name);
                if corrected.is_some() {
                    builder.note(format!(
                        "{name}: the bits and the size of groups are those of the codes"
                    ));
                }
                let bytes = corrected.map_or(bytes, String::into_bytes);
                documents.push(NewDocument::new(name, bytes));
            }
        }
        let draft_tensors =
            |draft: &Model| experts::stacked(draft.tensors_in(writer.dialect)?.tensors, writer);
        match self.layers {
            Some(layers) => {
                let (precision, draft_tensors) = (options.precision, &draft_tensors);
                let stored =
                    BlobModel { model, documents, absent, file_type, precision, draft_tensors };
                stored.finish(layers, &mut builder)?;
            }
            None => documents.into_iter().for_each(|document| builder.push_document(document)),
        }
        if let (Some(bytes), Some(_)) = (options.shard_bytes, writer.shard_bytes) {
            builder.shards(Shards::Bytes(bytes), "model");
        }
        why_plain.into_iter().for_each(|note| builder.note(note));
        Ok(builder)
    }

    /// Returns `config.json` and the other documents next to the weights.
    fn documents(&self, builder: &mut Builder) -> Result<WrittenDocuments> {
        let Self { model, writer, .. } = *self;
        let store = model.store();
        let is_safetensors = store.encoding() == Encoding::Safetensors;
        let has_own = is_safetensors && store.document("config.json").is_some();
        if self.options.one_file && (is_safetensors && !has_own || keeps_names(model)) {
            let nothing = NamedFiles::new();
            return Ok(WrittenDocuments { config: None, others: nothing.clone(), absent: nothing });
        }
        let only_json = writer.documents == DocumentKinds::Json;
        let (config, mut others) = match writer.dialect {
            _ if only_json && has_own => {
                let (config, others): (NamedFiles, NamedFiles) = store
                    .read_companions()?
                    .into_iter()
                    .partition(|(name, _)| name == "config.json");
                let config = config.into_iter().next();
                (config.map(|(_, bytes)| ConfigDocument::Stored(bytes)), others)
            }
            dialect => {
                let Documents { config, others } = match dialect {
                    Dialect::Mlx => match translate::mlx_documents(model) {
                        // The quantized form of a directory has its names and its config.
                        Err(error)
                            if has_own
                                && self.options.quantization.is_some()
                                && error.kind() == ErrorKind::Unsupported =>
                        {
                            let fault = error.fault();
                            builder.note(format!("{fault}: the directory is for other readers"));
                            translate::hf_documents(model)?
                        }
                        documents => documents?,
                    },
                    _ => translate::hf_documents(model)?,
                };
                let named = |(name, bytes): (&str, _)| (name.to_owned(), bytes);
                (Some(config), others.into_iter().map(named).collect::<Vec<_>>())
            }
        };
        let mut absent = Vec::new();
        if only_json {
            let is_json = |name: &str| name.ends_with(".json") && !name.contains('/');
            (others, absent) = others.into_iter().partition(|(name, _)| is_json(name));
            let reason = |name: &str| match name.contains('/') {
                true => modules::no_folders(writer),
                false => format!("{} accepts only JSON documents", writer.name),
            };
            let named = absent.iter().map(|(name, _)| (name.clone(), reason(name)));
            let mut named: Vec<(String, String)> = named.collect();
            named.sort();
            builder.leave_out(named);
        }
        Ok(WrittenDocuments { config, others, absent })
    }

    /// Whether what the model's `config.json` says about quantization is true of a written tensor.
    fn leaves_config_true(&self, tensor: &OutTensor) -> bool {
        let output = &tensor.output;
        match (output.method, self.writer.dialect) {
            (Method::Copied, Dialect::Mlx) => output.producer.group_size().is_none(),
            (Method::Copied, _) => true,
            (Method::Quantized, _) => !self.writer.quantization_in_config,
            _ => false,
        }
    }

    /// The config, in agreement with the tensors that will be written. A single file and a store of the
    /// same dialect keep all tensors.
    fn agreed(
        &self,
        shares: &mut [Share],
        config: Option<ConfigDocument>,
        builder: &mut Builder,
    ) -> Result<Option<ConfigDocument>> {
        let Self { model, writer, options, .. } = *self;
        let same = model.resolution()?.dialect == writer.dialect;
        let Some(config) = config else { return Ok(None) };
        if same && (options.one_file || writer.placement != Placement::Directory) {
            return Ok(Some(config));
        }
        let directory = PlannedDirectory {
            model,
            dialect: writer.dialect,
            is_whole: options.mesh.is_none(),
            unloadable: options.finish.unloadable,
        };
        let mut keys = config.keys()?.into_owned();
        for share in shares {
            directory.agree(&mut share.tensors, &mut keys, builder)?;
        }
        let is_same = *config.keys()? == keys;
        Ok(Some(if is_same { config } else { ConfigDocument::Made(keys) }))
    }

    /// Builds a single safetensors file. The documents of a directory are left out, which is noted.
    pub(super) fn one_file(&self) -> Result<Builder> {
        let writer = self.writer;
        if writer.dialect != Dialect::HuggingFace || writer.placement != Placement::Directory {
            let fault =
                format!("{} needs a directory: its config.json describes the tensors", writer.name);
            return Err(Error::unsupported(fault).advise("give the path of a directory"));
        }
        let mut builder = self.directory()?;
        if self.model.encoding() == Encoding::Safetensors {
            *builder.metadata() = KeyValues::of(self.model.metadata());
            let precision = &self.options.precision;
            if precision.decodes || precision.dtype.is_some() {
                builder.metadata().remove(STATED_FORMATS);
            }
        }
        let names = builder.documents().iter().map(|document| document.name.as_str());
        let names = names.collect::<Vec<_>>().join(", ");
        builder.one_file();
        if keeps_names(self.model) {
            builder.note(
                "the file has no general.architecture: the tensors keep its names, and the order of its values",
            );
        }
        if !names.is_empty() {
            builder.note(format!(
                "a single file has no room for {names}: give a directory to write them"
            ));
        }
        Ok(builder)
    }
}
