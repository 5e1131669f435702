//! The rate at which the machine copies pinned memory to the GPU: the upper limit of an upload. CUDA's driver is used
//! if it is installed.
#![allow(unsafe_code, reason = "calls of CUDA's driver")]

use std::ffi::{c_int, c_uint, c_void};
use std::ptr::null_mut;
use std::time::Instant;

use libloading::Library;

/// Bytes a second of a copy of so many pinned bytes, the best of five; `None` without CUDA's driver.
pub(crate) fn pinned_copy(bytes: usize) -> Option<f64> {
    // SAFETY: the functions have these signatures in every version of CUDA's driver since 4.0, and are called in
    // the order that its documentation asks for. The memory that is copied was allocated with this size.
    unsafe {
        let library = Library::new("libcuda.so.1").ok()?;
        let init = library.get::<unsafe extern "C" fn(c_uint) -> c_int>(b"cuInit").ok()?;
        let get = library.get::<unsafe extern "C" fn(*mut c_int, c_int) -> c_int>(b"cuDeviceGet");
        let retain = library.get::<unsafe extern "C" fn(*mut *mut c_void, c_int) -> c_int>(
            b"cuDevicePrimaryCtxRetain",
        );
        let current = library.get::<unsafe extern "C" fn(*mut c_void) -> c_int>(b"cuCtxSetCurrent");
        let host = library.get::<unsafe extern "C" fn(*mut *mut c_void, usize, c_uint) -> c_int>(
            b"cuMemHostAlloc",
        );
        let device =
            library.get::<unsafe extern "C" fn(*mut u64, usize) -> c_int>(b"cuMemAlloc_v2");
        let copy = library
            .get::<unsafe extern "C" fn(u64, *const c_void, usize) -> c_int>(b"cuMemcpyHtoD_v2");
        let (get, retain, current) = (get.ok()?, retain.ok()?, current.ok()?);
        let (host, device, copy) = (host.ok()?, device.ok()?, copy.ok()?);
        let (mut gpu, mut context) = (0, null_mut());
        let (mut from, mut to) = (null_mut(), 0);
        let is_ready = init(0) == 0
            && get(&raw mut gpu, 0) == 0
            && retain(&raw mut context, gpu) == 0
            && current(context) == 0
            && host(&raw mut from, bytes, 0) == 0
            && device(&raw mut to, bytes) == 0;
        if !is_ready {
            return None;
        }
        from.cast::<u8>().write_bytes(3, bytes);
        let mut best = f64::INFINITY;
        for _ in 0..5 {
            let start = Instant::now();
            if copy(to, from, bytes) != 0 {
                return None;
            }
            best = best.min(start.elapsed().as_secs_f64());
        }
        // The memory is given up with the process.
        Some(bytes as f64 / best)
    }
}
