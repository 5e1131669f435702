//! The `load` verb: loads tensors into a device's memory and measures time and memory.

use std::time::Instant;

use crate::device::Device;
use crate::error::Result;
use crate::load::{LoadOptions, Member, WeightProvider};
use crate::model::Sharding;
use crate::quant::Narrowing;

/// The report of [`load`].
#[derive(Clone, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct LoadReport {
    /// The name of the container.
    pub container: &'static str,
    /// The name of the architecture, if known.
    pub architecture: Option<&'static str>,
    /// The order in which rows of Q and K are stored, if the architecture is known.
    pub rope_layout: Option<&'static str>,
    /// The name of the device.
    pub device: String,
    /// The dtype of the loaded tensors: `stored`, or the one that the provider's policy requests.
    pub kept_as: &'static str,
    /// The rank whose parts were loaded, if there are several.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub sharding: Option<Sharding>,
    /// The names of the requested fusions.
    pub fused: Vec<&'static str>,
    /// The number of loaded tensors.
    pub tensors: usize,
    /// The number of buffers that hold them.
    pub buffers: usize,
    /// The number of buffers that were read back and are equal, if they were.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub verified: Option<usize>,
    /// The number of their elements.
    pub weights: u64,
    /// The bytes of all their parts.
    pub bytes: u64,
    /// Those of tensors whose buffer is the file's own memory, which was not copied.
    pub imported_bytes: u64,
    /// The number of values that became infinite by rounding.
    pub lost_to_infinity: u64,
    /// The number of values that became 0 by rounding.
    pub lost_to_zero: u64,
    /// Tensors whose values had to be computed, each with the reason.
    pub computed: Vec<(String, &'static str)>,
    /// The seconds that opening took, if the caller measured and set them.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub open_seconds: Option<f64>,
    /// The seconds that loading took.
    pub load_seconds: f64,
    /// The gigabytes (10^9 bytes) loaded per second.
    pub gigabytes_per_second: f64,
    /// The peak memory of the process in bytes, including mapped file pages, if the system reports
    /// it.
    pub peak_memory_bytes: Option<u64>,
    /// The number of the model's tensors with a canonical name.
    pub mapped: usize,
    /// Stored names without a canonical one.
    pub unknown: Vec<String>,
    /// Canonical names of tensors that the architecture requires and the model lacks.
    pub missing: Vec<String>,
}

/// Loads the tensors whose names `wanted` accepts into the provider's cache, and reports time and
/// memory. See [`WeightProvider::load_all`].
///
/// ```
/// use weighbridge::{LoadOptions, WeightProvider, ops};
///
/// # fn main() -> weighbridge::Result<()> {
/// let provider = WeightProvider::open("assets/sample/sample-Q8_0.gguf")?;
/// let report = ops::load(&provider, |_| true, &LoadOptions::new())?;
/// assert_eq!(report.bytes, provider.cached_bytes());
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// Same as [`WeightProvider::load_all`].
pub fn load<D: Device>(
    provider: &WeightProvider<D>,
    wanted: impl Fn(&str) -> bool,
    options: &LoadOptions<'_>,
) -> Result<LoadReport> {
    let model = provider.model();
    let resolution = model.resolution()?;
    let start = Instant::now();
    let loaded = provider.load_all(wanted, options)?;
    let load_seconds = start.elapsed().as_secs_f64();
    let bytes: u64 = loaded.iter().map(|tensor| tensor.bytes()).sum();
    let mut lost = Narrowing::default();
    loaded.iter().for_each(|tensor| lost += tensor.lost);
    let name = |members: &[Member]| {
        members.iter().map(|member| member.name.as_str()).collect::<Vec<_>>().join("+")
    };
    let computed = loaded.iter().filter_map(|t| Some((name(&t.members), t.computed?)));
    Ok(LoadReport {
        container: model.container(),
        architecture: resolution.architecture.map(|architecture| architecture.name),
        rope_layout: resolution.stored_rope_layout().map(|rope| rope.name()),
        device: provider.device().name().into_owned(),
        kept_as: provider.policy_name(),
        sharding: Some(provider.rank()).filter(|sharding| !sharding.is_whole()),
        fused: options.fusions().iter().map(|fusion| fusion.name).collect(),
        tensors: loaded.iter().map(|tensor| tensor.members.len()).sum(),
        buffers: loaded.len(),
        verified: None,
        weights: loaded.iter().map(|tensor| tensor.shape.iter().product::<u64>()).sum(),
        bytes,
        imported_bytes: loaded
            .iter()
            .filter(|tensor| tensor.imported)
            .map(|tensor| tensor.bytes())
            .sum(),
        lost_to_infinity: lost.overflows,
        lost_to_zero: lost.flushes,
        computed: computed.collect(),
        open_seconds: None,
        load_seconds,
        gigabytes_per_second: bytes as f64 / 1e9 / load_seconds,
        peak_memory_bytes: peak_memory(),
        mapped: resolution.mapped.len(),
        unknown: resolution.unknown.clone(),
        missing: resolution.missing.clone(),
    })
}

/// The peak memory of the process in bytes, as Linux reports it; see proc(5). Mapped pages of files
/// count. `None` on other systems.
pub fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib.saturating_mul(1024))
}
