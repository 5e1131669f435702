//! Loading many tensors into memory: the library's or the caller's.

use std::borrow::Cow;
use std::ffi::{c_char, c_void};
use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::Arc;

use weighbridge_rs::device::{BufferLayout, Device, DeviceLimits, split_at};
use weighbridge_rs::load::{Fusion, LoadedTensor};
use weighbridge_rs::{Error, LoadOptions, Policy, Result, WeightProvider};

use crate::fault::{gives, quietly};
use crate::model::WbModel;
use crate::tensor::dtype;
use crate::{Callback, Options, WbProgress, WbStr, beyond, given, null, text, usage};

/// Allocates `bytes` bytes at a multiple of `alignment` for a tensor, or returns NULL. Called from
/// the thread that calls wb_load.
pub type WbAllocate =
    Option<unsafe extern "C" fn(user: *mut c_void, bytes: usize, alignment: usize) -> *mut c_void>;

/// Gives back what wb_allocate returned: when the weights are freed, or when loading fails.
pub type WbRelease =
    Option<unsafe extern "C" fn(user: *mut c_void, data: *mut c_void, bytes: usize)>;

/// Whether a tensor is loaded, by its name. Called from the thread that calls wb_load.
pub type WbWanted = Option<unsafe extern "C" fn(user: *mut c_void, name: WbStr) -> i32>;

/// Options of wb_load.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct WbLoadOptions {
    /// sizeof(wb_load_options).
    pub size: usize,
    /// A dtype of wb_dtype: the one of all floats and quantized tensors, or WB_STORED.
    pub dtype: i32,
    /// The number of threads; 0 means four.
    pub threads: u32,
    /// Fusions by name, separated by commas: "qkv,gate-up". NULL for none. Tensors that can be joined
    /// share one buffer.
    pub fuse: *const c_char,
    /// Passed to the callbacks.
    pub user: *mut c_void,
    /// Called with the progress, or NULL.
    pub progress: WbProgress,
    /// Provides the memory, or NULL: then it is the library's.
    pub allocate: WbAllocate,
    /// Gives back the memory, or NULL: then it stays the caller's.
    pub release: WbRelease,
    /// Chooses tensors, or NULL: then all are loaded.
    pub wanted: WbWanted,
}

// SAFETY: 0 stands for the default of each member.
unsafe impl Options for WbLoadOptions {}

/// The alignment of loaded parts, which is that of host memory in the library.
const ALIGNMENT: usize = 64;

/// Host memory that a caller's functions provide.
#[derive(Clone, Copy, Debug)]
struct Memory {
    user: *mut c_void,
    allocate: WbAllocate,
    release: WbRelease,
}

// SAFETY: the header says from which thread `allocate` is called; `release` is called from the thread
// that frees the weights. The pointers are the caller's own.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

/// A buffer that the caller's functions provided, or the library's own memory.
#[derive(Debug)]
struct Buffer {
    data: *mut u8,
    len: usize,
    memory: Memory,
    own: Option<weighbridge_rs::bytes::AlignedBytes>,
}

// SAFETY: the memory belongs to the buffer until it is released, and is bound to no thread.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Buffer {
    #[expect(clippy::disallowed_methods, reason = "the memory is the caller's: bytes, no structs")]
    fn bytes(&self) -> &[u8] {
        match (&self.own, self.len) {
            (Some(own), _) => own,
            (None, 0) => &[],
            // SAFETY: `allocate` returned `len` bytes, which were initialized.
            (None, len) => unsafe { std::slice::from_raw_parts(self.data, len) },
        }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        match (&mut self.own, self.len) {
            (Some(own), _) => own,
            (None, 0) => &mut [],
            // SAFETY: as above, and the buffer is borrowed mutably.
            (None, len) => unsafe { std::slice::from_raw_parts_mut(self.data, len) },
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let (None, false, Some(release)) = (&self.own, self.data.is_null(), self.memory.release)
        {
            // SAFETY: `allocate` returned this memory, and nothing uses it any more.
            unsafe { release(self.memory.user, self.data.cast(), self.len) };
        }
    }
}

impl Device for Memory {
    type Buffer = Buffer;
    type Region<'b> = &'b mut [u8];

    fn name(&self) -> Cow<'_, str> {
        "memory".into()
    }

    fn limits(&self) -> DeviceLimits {
        DeviceLimits::new(ALIGNMENT as u64)
    }

    fn allocate(&self, layout: &BufferLayout) -> Result<Buffer> {
        let bytes = layout.bytes;
        let no_memory = || Error::out_of_memory("memory", bytes, None);
        let len = usize::try_from(bytes).map_err(|_| no_memory())?;
        let memory = *self;
        let Some(allocate) = self.allocate else {
            let mut own =
                weighbridge_rs::bytes::AlignedBytes::zeroed(bytes).map_err(|_| no_memory())?;
            return Ok(Buffer { data: own.as_mut_ptr(), len, memory, own: Some(own) });
        };
        if len == 0 {
            return Ok(Buffer { data: std::ptr::null_mut(), len, memory, own: None });
        }
        // SAFETY: the caller passed a function of this type.
        let data: *mut u8 = unsafe { allocate(self.user, len, ALIGNMENT) }.cast();
        if data.is_null() {
            return Err(no_memory());
        }
        // SAFETY: the function returned `len` bytes. They may hold anything, and Rust's slices must
        // be initialized.
        unsafe { data.write_bytes(0, len) };
        Ok(Buffer { data, len, memory, own: None })
    }

    fn regions<'b>(
        &self,
        buffer: &'b mut Buffer,
        ranges: &[Range<u64>],
    ) -> Result<Vec<&'b mut [u8]>> {
        split_at(buffer.bytes_mut(), ranges)
    }

    fn fill(
        &self,
        region: &mut [u8],
        write: &mut dyn FnMut(&mut [u8]) -> Result<()>,
    ) -> Result<()> {
        write(region)
    }

    fn contents<'b>(&self, buffer: &'b Buffer) -> Option<&'b [u8]> {
        Some(buffer.bytes())
    }

    fn read(&self, buffer: &Buffer, offset: u64, out: &mut [u8]) -> Result<()> {
        let range = range(offset, out.len(), buffer.len)?;
        match buffer.bytes().get(range) {
            Some(from) => out.copy_from_slice(from),
            None => return Err(outside(offset, out.len(), buffer.len)),
        }
        Ok(())
    }
}

fn range(offset: u64, len: usize, buffer: usize) -> Result<Range<usize>> {
    let start = usize::try_from(offset).ok();
    let range = start.and_then(|start| Some(start..start.checked_add(len)?));
    range.ok_or_else(|| outside(offset, len, buffer))
}

fn outside(offset: u64, len: usize, buffer: usize) -> Error {
    usage(format!("{len} bytes at offset {offset} exceed the buffer of {buffer} bytes"))
}

/// Loaded tensors. Any number of threads may read them at the same time.
#[derive(Debug)]
pub struct WbWeights {
    buffers: Vec<(String, Arc<LoadedTensor<Memory>>)>,
}

/// A loaded tensor, or several that were fused.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct WbBuffer {
    /// The names of its tensors, joined by "+".
    pub name: WbStr,
    /// The dtype of its elements.
    pub dtype: WbStr,
    /// The dimensions, outermost first.
    pub shape: *const u64,
    /// The number of dimensions.
    pub rank: usize,
    /// The number of tensors in it: 1 unless it is fused.
    pub members: usize,
    /// All parts, the weight first; each begins at a multiple of 64 bytes.
    pub data: *const c_void,
    /// The bytes of all parts.
    pub bytes: usize,
    /// The bytes of the weight, which lies at `data`.
    pub weight_bytes: usize,
}

/// Loads the tensors of a model by canonical name, each in one buffer with its scales and other parts,
/// or fused. Reads go straight to their place. `options` may be NULL. Free *out with
/// wb_weights_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wb_load(
    model: Option<&WbModel>,
    options: *const WbLoadOptions,
    out: Option<&mut MaybeUninit<Box<WbWeights>>>,
) -> i32 {
    let lacks_out = out.is_none();
    gives(out, || {
        let model = given(model, "model")?;
        // SAFETY: the caller passes NULL or valid pointers.
        let options = unsafe { crate::options(options)? };
        if lacks_out {
            return Err(null("out"));
        }
        let policy = match dtype(options.dtype)? {
            None => Policy::Keep,
            Some(weighbridge_rs::DType::F16) => Policy::F16,
            Some(weighbridge_rs::DType::BF16) => Policy::BF16,
            Some(_) => Policy::F32,
        };
        let mut fusions = Vec::new();
        if !options.fuse.is_null() {
            // SAFETY: as above.
            for name in unsafe { text(options.fuse, "fuse")? }.split(',').filter(|n| !n.is_empty())
            {
                let fusion = Fusion::named(name);
                fusions
                    .push(fusion.ok_or_else(|| usage(format!("no fusion is named \"{name}\"")))?);
            }
        }
        let WbLoadOptions { user, allocate, release, wanted, .. } = options;
        let callback = Callback { call: options.progress, user };
        let watch = |progress| callback.report(progress);
        let mut load = LoadOptions::new().fuse(&fusions).progress(&watch);
        if options.threads > 0 {
            load = load.threads(options.threads as usize);
        }
        let memory = Memory { user, allocate, release };
        let provider = WeightProvider::new(model.model.clone(), memory)?.policy(policy);
        let wants = |name: &str| {
            // SAFETY: the caller passed a function of this type.
            wanted.is_none_or(|wanted| unsafe { wanted(user, WbStr::new(name.as_bytes())) } != 0)
        };
        let loaded = provider.load_all(wants, &load)?;
        let named = |tensor: Arc<LoadedTensor<Memory>>| {
            let names: Vec<&str> = tensor.members.iter().map(|member| &*member.name).collect();
            (names.join("+"), tensor)
        };
        let buffers = loaded.into_iter().map(named).collect();
        Ok(Box::new(WbWeights { buffers }))
    })
}

/// The number of buffers. 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn wb_weights_count(weights: Option<&WbWeights>) -> usize {
    weights.map_or(0, |weights| weights.buffers.len())
}

/// The buffer at a position, 0 first. Pointers in it are valid as long as the weights.
#[unsafe(no_mangle)]
pub extern "C" fn wb_weights_at(
    weights: Option<&WbWeights>,
    position: usize,
    out: Option<&mut MaybeUninit<WbBuffer>>,
) -> i32 {
    gives(out, || {
        let weights = given(weights, "weights")?;
        let found = weights.buffers.get(position);
        let count = weights.buffers.len();
        let (name, tensor) = found.ok_or_else(|| beyond("buffers", position, count))?;
        let bytes = tensor.buffer.bytes();
        let weight = tensor.parts.first().map_or(0, |part| part.range.end - part.range.start);
        Ok(WbBuffer {
            name: WbStr::new(name.as_bytes()),
            dtype: WbStr::new(tensor.dtype.name().as_bytes()),
            shape: tensor.shape.as_ptr(),
            rank: tensor.shape.len(),
            members: tensor.members.len(),
            data: bytes.as_ptr().cast(),
            bytes: bytes.len(),
            weight_bytes: usize::try_from(weight).unwrap_or(0),
        })
    })
}

/// Frees loaded tensors. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn wb_weights_free(weights: Option<Box<WbWeights>>) {
    quietly(|| drop(weights));
}
