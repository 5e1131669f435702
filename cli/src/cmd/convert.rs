//! `convert`: converts a model to another container.

use std::io::Write;
use std::path::{Path, PathBuf};

use weighbridge::adapter::Adapter;
use weighbridge::container::{Container, GGUF, MLX, OLLAMA, SAFETENSORS};
use weighbridge::model::Encoding;
use weighbridge::ops::{self, ConvertOptions};
use weighbridge::recipe::FileType;
use weighbridge::recipe::llama_cpp::target as target_dtype;
use weighbridge::write::{PlannedTensor, WritePlan};
use weighbridge::{DType, Error, ErrorKind, Model};

use super::Done;
use crate::args::TargetType;
use crate::args::write::Convert;
use crate::print::{self, shown};
use crate::writing::{self, Prepared};
use crate::{Stop, note, remark};

pub(crate) fn run(args: &Convert) -> Done {
    if let Some(base) = &args.lora_from {
        let src = args.writing.open.options().open(&args.src)?;
        if adapter(&src).is_none() {
            return extract(args, base, &src);
        }
    }
    let Prepared { model, plan, dst, .. } = prepare(args)?;
    writing::run_whole(&model, &plan, &dst, args.whole, &args.writing)
}

/// The adapter that a source is.
fn adapter(source: &Model) -> Option<Adapter> {
    let adapter = Adapter::of(source).ok().flatten();
    adapter
        .filter(|adapter| !adapter.is_empty() || adapter.obstacle().is_some() || source.is_empty())
}

/// Plans an adapter as a GGUF file.
fn in_gguf(args: &Convert, model: Model, adapter: &Adapter) -> Result<Prepared, Stop> {
    let src = shown(&args.src);
    let dst = args.dst.path()?.map(Path::to_path_buf);
    let dst = dst.unwrap_or_else(|| writing::default_name(&args.src, ".gguf"));
    let to = args.to.map_or(GGUF.name, |to| to.name);
    if by_ending(&dst) != Some(&GGUF) || to != GGUF.name {
        let advice = format!(
            "`weighbridge convert {src} DST.gguf --base MODEL`; --lora merges it into a model"
        );
        let name = if to == GGUF.name { shown(&dst) } else { to.to_owned() };
        let fault = format!("{src} is an adapter, which is written as GGUF alone, not as {name}");
        return Err(Error::new(ErrorKind::Mismatch, fault).advise(advice).into());
    }
    let with_base = format!("`weighbridge convert {src} DST.gguf --base MODEL`");
    let named = args.lora_from.is_none().then(|| adapter.base_model()).flatten();
    let base = args.lora_from.clone().or_else(|| named.map(PathBuf::from)).ok_or_else(|| {
        let fault = format!("{src} is an adapter, and a GGUF file needs the names of its model");
        let advice = format!(
            "{with_base} writes it as GGUF, `weighbridge convert MODEL DST --lora {src}` merges it"
        );
        Error::new(ErrorKind::Mismatch, fault).advise(advice)
    })?;
    let base = args.writing.open.options().open(&base).map_err(|error| match named {
        Some(name) if error.kind() == ErrorKind::NotFound => {
            let name = shown(Path::new(name));
            let fault = format!(
                "{src} is an adapter of {name}, which is not on this machine under that name"
            );
            let advice = format!("{with_base}, where MODEL is the path of that model");
            Error::new(ErrorKind::NotFound, fault).advise(advice)
        }
        _ => error,
    })?;
    remark(&base);
    let plan = ops::adapter_in_gguf(adapter, &base, args.dtype)?;
    let dst = writing::with_type(dst, plan.file_type.map(FileType::name));
    Ok(Prepared { model, plan, dst, others: Vec::new() })
}

/// `--lora-from`: writes the difference of two models as an adapter.
fn extract(args: &Convert, base: &Path, tuned: &Model) -> Done {
    if let Some(to) = args.to {
        let fault = format!("a new adapter is a directory of PEFT: leave --to {} out", to.name);
        return Err(Stop::Usage(fault));
    }
    if args.dtype.is_some() {
        let fault = "--dtype is for adapters that are converted; a new one has F32";
        return Err(Stop::Usage(fault.to_owned()));
    }
    let dst = args.dst.path()?.map(Path::to_path_buf);
    if let Some(dst) = dst.as_deref().filter(|dst| by_ending(dst) == Some(&GGUF)) {
        let fault = format!(
            "{} is the name of a GGUF file, but an adapter is written as a folder: convert that one to GGUF, with --base",
            shown(dst)
        );
        return Err(Stop::Usage(fault));
    }
    let base = args.writing.open.options().open(base)?;
    [&base, tuned].into_iter().for_each(remark);
    let dst = dst.unwrap_or_else(|| writing::default_name(&args.src, "-lora"));
    let adapter = ops::extract_adapter(&base, tuned, args.rank)?;
    let status = writing::run(tuned, &adapter.plan, &dst, &args.writing)?;
    let kept = adapter.kept();
    let least = kept.iter().min_by(|(_, a), (_, b)| a.total_cmp(b));
    if let Some((name, share)) = least.filter(|_| !args.writing.json) {
        let mean = kept.iter().map(|(_, share)| share).sum::<f64>() / kept.len() as f64;
        let mut out = print::stdout();
        out.paragraph(
            &format!(
                "rank {} holds {:.1} % of the squares of the change, at least {:.1} % ({name})",
                args.rank,
                mean * 100.0,
                share * 100.0
            ),
            0,
        )?;
        out.flush()?;
    }
    Ok(status)
}

/// Plans the conversion.
pub(super) fn prepare(args: &Convert) -> Result<Prepared, Stop> {
    // The name of the destination is checked before the model is opened, which may take longer.
    let dst = args.dst.path()?;
    let as_source = dst.is_some_and(|dst| {
        let stated = args.to.is_some() || args.shards.is_some();
        !stated && !is_file_name(dst) && args.src.is_dir()
    });
    let given = dst.filter(|_| !as_source).map(|dst| container(args, dst)).transpose();
    let open = || args.writing.open.options().open(&args.src);
    // Of two wrong names, that of the source is reported.
    let given = match given {
        Ok(given) => given,
        Err(fault) => {
            let model = open()?;
            // An adapter is written in one way, whatever its name.
            return match adapter(&model) {
                Some(adapter) => in_gguf(args, model, &adapter),
                None => Err(fault),
            };
        }
    };
    if let Some((to, _, dst)) = &given
        && **to == GGUF
    {
        check_gguf_name(dst, false)?;
    }
    let model = open()?;
    if let Some(adapter) = adapter(&model) {
        return in_gguf(args, model, &adapter);
    }
    let (to, one_file, dst) = match (given, dst) {
        (Some(given), _) => given,
        (None, Some(dst)) => container_of(&model, dst)?,
        (None, None) => unnamed(args, &model)?,
    };
    remark(&model);
    if one_file || (*to == GGUF && args.max_shard_size.is_none()) {
        writing::check_file(&args.src, &dst, &args.writing)?;
    }
    let unused = [
        ("--store", args.store.store.is_some() && *to != OLLAMA),
        ("--no-extra-keys", args.no_extra_keys && *to != GGUF),
    ];
    if let Some((option, _)) = unused.iter().find(|(_, is_unused)| *is_unused) {
        return Err(Stop::Usage(format!("{option} has no meaning for {}", to.name)));
    }
    let model = args.source.applied(model)?;
    let mut options = ConvertOptions::new(to)
        .lossless(args.lossless)
        .one_file(one_file)
        .extra_keys(!args.no_extra_keys)
        .projector(args.mmproj)
        .dequantize(args.dequantize)
        .requantize_merged(args.requantize_merged)
        .allow_unloadable(args.whole.allow_incomplete)
        .fuse(&args.fuse);
    if let Some(dtype) = args.dtype {
        options = options.dtype(dtype);
    }
    if let Some(bytes) = args.max_shard_size {
        options = options.shard_bytes(bytes).shard_names(&dst);
    }
    if let Some(mesh) = args.shards {
        options = options.shares(mesh);
    }
    let mut plan = ops::convert(&model, &options)?;
    let named = writing::with_type(dst.clone(), plan.file_type.map(FileType::name));
    if named != dst && args.max_shard_size.is_some() {
        plan = ops::convert(&model, &options.shard_names(&named))?;
    }
    let dst = named;
    note_name(args, &plan, &dst);
    note_kept(args, to, &plan);
    let others = args.source.adapters().collect();
    Ok(Prepared { model, plan, dst, others })
}

/// Notes a name that says another type than is written: `foo-Q5_K_M.gguf`.
fn note_name(args: &Convert, plan: &WritePlan, dst: &Path) {
    let name = dst.file_name().unwrap_or_default().to_string_lossy();
    let (Some(named), Some(written)) = (TargetType::in_name(&name), plan.file_type) else { return };
    let (name, dst) = (named.name(), shown(dst));
    if written == named {
        return;
    }
    let command = || {
        let is_again = |tensor: &PlannedTensor| {
            DType::from_name(&tensor.from).is_some_and(DType::is_quantized)
        };
        let given = [
            (" --imatrix FILE", named.needs_importance()),
            (" --allow-requantize", plan.tensors.iter().any(is_again)),
            (" --overwrite", !args.writing.dry_run),
        ];
        let adapters = args.source.lora.iter().map(|lora| format!(" --lora {lora}"));
        let given = given.iter().filter(|(_, is_given)| *is_given).map(|(option, _)| *option);
        let given: String = given.map(str::to_owned).chain(adapters).collect();
        format!("`weighbridge quantize {} {dst} {name}{given}` writes that type", shown(&args.src))
    };
    let is_dtype = args.mmproj || target_dtype(name).is_ok() && !named.needs_importance();
    let how = if is_dtype { format!("`--dtype {name}` writes that type") } else { command() };
    note(&format!("{dst} is the name of a file in {name}, but holds {written}: {how}"));
}

/// Notes tensors that --dtype leaves as they are, outside of GGUF, whose users expect it.
fn note_kept(args: &Convert, to: &Container, plan: &WritePlan) {
    let Some(dtype) = args.dtype.filter(|_| *to != GGUF && *to != OLLAMA) else { return };
    let is_kept = |tensor: &&PlannedTensor| tensor.dtype == DType::F32 && dtype != DType::F32;
    let kept = plan.tensors.iter().filter(is_kept).count();
    if kept > 0 {
        let tensors = print::plural(plan.tensors.len(), "tensor");
        note(&format!("{kept} of {tensors} stay F32: --dtype is for matrices, as in GGUF"));
    }
}

/// The destination: the container, whether it is one safetensors file, and its path.
type Target = (&'static Container, bool, PathBuf);

/// The target of a destination that was given.
fn container(args: &Convert, dst: &Path) -> Result<Target, Stop> {
    let (to, one_file) = match (args.to, by_ending(dst), args.shards) {
        (None, None, Some(_)) => (&SAFETENSORS, false),
        (to, ..) => target(dst, to)?,
    };
    if (one_file || *to == OLLAMA) && args.max_shard_size.is_some() {
        let what = if one_file { "one file" } else { "a model in a store" };
        let dst = shown(dst);
        let fault = format!("--max-shard-size is for several files, but {dst} is {what}");
        return Err(Stop::Usage(fault));
    }
    let dst = match () {
        () if *to == OLLAMA => args.store.place(&dst.to_string_lossy())?,
        () if *to == GGUF => writing::file_in(dst.to_path_buf(), || file_name(args, to)),
        () => dst.to_path_buf(),
    };
    Ok((to, one_file, dst))
}

/// The target of a destination whose name does not decide it: for a directory, the container of the source.
pub(super) fn container_of(model: &Model, dst: &Path) -> Result<Target, Stop> {
    let own = [&SAFETENSORS, &MLX].into_iter().find(|own| own.name == model.container());
    let (to, one_file) = target(dst, own)?;
    Ok((to, one_file, dst.to_path_buf()))
}

/// The target if no destination was given: a GGUF file, unless `--to` says otherwise.
fn unnamed(args: &Convert, model: &Model) -> Result<Target, Stop> {
    let to = match (args.to, args.shards) {
        (Some(to), _) => to,
        (None, Some(_)) => &SAFETENSORS,
        (None, None)
            if model.container() != GGUF.name || args.dtype.is_some() || args.dequantize =>
        {
            &GGUF
        }
        (None, None) if args.source.adapters().next().is_some() => {
            let fault = "the merged model has no name: give DST, as in `-o merged.gguf`";
            return Err(Stop::Usage(fault.to_owned()));
        }
        (None, None) => {
            let src = shown(&args.src);
            let fault = format!("{src} is GGUF already: give --to safetensors, --to mlx or DST");
            return Err(Stop::Usage(fault));
        }
    };
    if *to == OLLAMA {
        let fault = "the new model has no name: give MODEL[:TAG] as DST";
        return Err(Stop::Usage(fault.to_owned()));
    }
    Ok((to, false, file_name(args, to)))
}

/// The usual name of what is written to a container.
fn file_name(args: &Convert, to: &Container) -> PathBuf {
    let dtype = match args.dtype {
        Some(dtype) => format!("-{dtype}"),
        // The type is known once the file is planned.
        None if args.dequantize && *to == GGUF => "-{FTYPE}".to_owned(),
        None if args.dequantize => "-dequantized".to_owned(),
        None => String::new(),
    };
    let ending = match (*to == GGUF, args.mmproj) {
        (true, true) => format!("-mmproj{dtype}.gguf"),
        (true, false) => format!("{dtype}.gguf"),
        (false, _) => format!("{dtype}-{}", to.name),
    };
    writing::default_name(&args.src, &ending)
}

/// Refuses a name that says that the GGUF file to write is something else; if it `needs_ending`, also one that may be
/// meant for a folder.
pub(super) fn check_gguf_name(dst: &Path, needs_ending: bool) -> Result<(), Stop> {
    let name = shown(dst);
    let is_folder = dst.is_dir() || name.ends_with(['/', '\\']);
    let fault = match by_ending(dst) {
        _ if is_folder => format!("{name} is a folder, but GGUF is a file: give its name too"),
        Some(container) if *container != GGUF => {
            format!("{name} is the name of a {} file, but the type is one of GGUF", container.name)
        }
        None if needs_ending && !is_file_name(dst) && !dst.exists() => {
            format!(
                "{name} has no ending, and a GGUF file ends in .gguf: give {name}.gguf, or a folder that exists"
            )
        }
        _ => return Ok(()),
    };
    Err(Stop::Usage(fault))
}

/// Refuses a name that says that files whose tensors are written unchanged are something else.
pub(super) fn check_encoding(model: &Model, dst: &Path) -> Result<(), Stop> {
    let own = match model.encoding() {
        Encoding::Gguf => &GGUF,
        Encoding::Safetensors => &SAFETENSORS,
        _ => return Ok(()),
    };
    match by_ending(dst) {
        Some(named) if named != own && !dst.is_dir() => Err(Stop::Usage(format!(
            "{} is the name of a {} file, but the tensors stay in {}: `convert` changes the container",
            shown(dst),
            named.name,
            own.name
        ))),
        _ => Ok(()),
    }
}

/// Refuses the name of a file for an MLX directory.
pub(super) fn check_mlx_name(dst: &Path) -> Result<(), Stop> {
    match by_ending(dst) {
        Some(_) if !dst.is_dir() => Err(Stop::Usage(format!(
            "{} is the name of a file, but MLX is a directory: types such as Q4_K_M and Q8_0 write GGUF",
            shown(dst)
        ))),
        _ => Ok(()),
    }
}

/// Whether a path has the ending of a file: `x.bin`, but not `Qwen3-0.6B`.
pub(super) fn is_file_name(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    !ending.is_empty() && ending.bytes().all(|byte| byte.is_ascii_alphabetic())
}

/// The container of a file, by its ending.
fn by_ending(path: &Path) -> Option<&'static Container> {
    let ending = path.extension()?.to_ascii_lowercase();
    match ending.to_str()? {
        "gguf" => Some(&GGUF),
        "safetensors" => Some(&SAFETENSORS),
        _ => None,
    }
}

/// Endings of files that other programs write, and the programs.
const UNWRITTEN: [(&str, &str); 6] = [
    ("bin", "PyTorch and whisper.cpp"),
    ("ckpt|pt|pth", "PyTorch"),
    ("npy|npz", "NumPy"),
    ("onnx", "ONNX"),
    ("h5|keras|tflite", "TensorFlow"),
    ("uqff", "mistral.rs"),
];

/// The ending of a file that is not written, and the programs whose it is.
fn unwritten(path: &Path) -> Option<(String, &'static str)> {
    let ending = path.extension()?.to_ascii_lowercase().into_string().ok()?;
    let is_it = |endings: &str| endings.split('|').any(|it| it == ending);
    let (_, program) = UNWRITTEN.iter().find(|(endings, _)| is_it(endings))?;
    Some((ending, program))
}

/// The container to write, and whether the destination is one safetensors file.
pub(super) fn target(
    path: &Path,
    to: Option<&'static Container>,
) -> Result<(&'static Container, bool), Stop> {
    let dst = shown(path);
    let ending = by_ending(path).filter(|_| !path.is_dir());
    let to = match (to, ending) {
        (Some(to), None) => to,
        (None, Some(named)) => named,
        (Some(to), Some(named)) if to == named || *to == OLLAMA => to,
        (Some(to), Some(named)) => {
            let fault = format!(
                "{dst} is the name of a {} file, but --to {} is given: leave out --to, or give \
                 another name",
                named.name, to.name
            );
            return Err(Stop::Usage(fault));
        }
        (None, None) => {
            let unwritten = unwritten(path).map_or(String::new(), |(ending, program)| {
                format!("files that end in .{ending}, of {program}, are not written, and ")
            });
            let fault = format!(
                "{unwritten}the container of {dst} cannot be told from its name: give --to safetensors, mlx, gguf or \
                 ollama, or a name that ends in .gguf or .safetensors"
            );
            return Err(Stop::Usage(fault));
        }
    };
    Ok((to, *to == SAFETENSORS && ending.is_some()))
}
