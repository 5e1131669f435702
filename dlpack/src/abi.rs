//! The structs of DLPack 1.0, as its specification lays them out.

use std::ffi::c_void;

use crate::{Array, Element};

/// `DLTensor`.
#[derive(Debug)]
#[repr(C)]
struct View {
    data: *mut c_void,
    /// `DLDevice`: 1 is host memory.
    device: (i32, i32),
    ndim: i32,
    dtype: Element,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

/// `DLManagedTensor`: an array without a version, for consumers of before 2023.
#[derive(Debug)]
#[repr(C)]
pub struct ManagedTensor {
    view: View,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Self)>,
}

/// `DLManagedTensorVersioned`.
#[derive(Debug)]
#[repr(C)]
pub struct ManagedTensorVersioned {
    version: [u32; 2],
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Self)>,
    flags: u64,
    view: View,
}

/// The array, and the arrays of numbers that its `DLTensor` points to.
struct Context {
    _array: Array,
    shape: Box<[i64]>,
    strides: Box<[i64]>,
}

fn view(array: Array) -> (View, *mut c_void) {
    let shape: Box<[i64]> = array.shape().into();
    let mut strides: Box<[i64]> = shape.clone();
    let mut step = 1i64;
    for (stride, dim) in strides.iter_mut().zip(&shape).rev() {
        *stride = step;
        step = step.saturating_mul((*dim).max(1));
    }
    let (data, dtype) = (array.data().cast(), array.element());
    let mut context = Box::new(Context { _array: array, shape, strides });
    // A tensor of a file has a few dimensions: the library limits them.
    let ndim = i32::try_from(context.shape.len()).unwrap_or(i32::MAX);
    let view = View {
        data,
        device: (1, 0),
        ndim,
        dtype,
        shape: context.shape.as_mut_ptr(),
        strides: context.strides.as_mut_ptr(),
        byte_offset: 0,
    };
    (view, Box::into_raw(context).cast())
}

impl Array {
    /// Passes the array to a consumer, which calls the deleter.
    pub fn into_dlpack(self) -> *mut ManagedTensorVersioned {
        let (view, context) = view(self);
        let deleter: unsafe extern "C" fn(*mut ManagedTensorVersioned) = delete_versioned;
        // The array may be written to: no flag says that it is read-only.
        let tensor = ManagedTensorVersioned {
            version: [1, 0],
            context,
            deleter: Some(deleter),
            flags: 0,
            view,
        };
        Box::into_raw(Box::new(tensor))
    }

    /// Passes the array to a consumer that knows no versions, and that calls the deleter.
    pub fn into_legacy_dlpack(self) -> *mut ManagedTensor {
        let (view, context) = view(self);
        let deleter: unsafe extern "C" fn(*mut ManagedTensor) = delete;
        Box::into_raw(Box::new(ManagedTensor { view, context, deleter: Some(deleter) }))
    }
}

/// The deleter of [`Array::into_dlpack`].
///
/// # Safety
///
/// `tensor` is null or was returned by [`Array::into_dlpack`], and is not used afterwards.
pub unsafe extern "C" fn delete_versioned(tensor: *mut ManagedTensorVersioned) {
    if !tensor.is_null() {
        // SAFETY: the caller gives back what `into_dlpack` made of two boxes.
        unsafe {
            let tensor = Box::from_raw(tensor);
            drop(Box::from_raw(tensor.context.cast::<Context>()));
        }
    }
}

/// The deleter of [`Array::into_legacy_dlpack`].
///
/// # Safety
///
/// `tensor` is null or was returned by [`Array::into_legacy_dlpack`], and is not used afterwards.
pub unsafe extern "C" fn delete(tensor: *mut ManagedTensor) {
    if !tensor.is_null() {
        // SAFETY: the caller gives back what `into_legacy_dlpack` made of two boxes.
        unsafe {
            let tensor = Box::from_raw(tensor);
            drop(Box::from_raw(tensor.context.cast::<Context>()));
        }
    }
}

#[cfg(test)]
mod tests {
    use weighbridge::{Model, Part};

    use super::*;
    use crate::PrivateMaps;

    const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../assets/sample/hf");

    #[test]
    fn the_structs_have_the_layout_of_the_specification() {
        assert_eq!((size_of::<Element>(), size_of::<View>()), (4, 48));
        assert_eq!((size_of::<ManagedTensor>(), size_of::<ManagedTensorVersioned>()), (64, 80));
        assert_eq!(std::mem::offset_of!(ManagedTensorVersioned, view), 32);
    }

    #[test]
    fn writes_stay_private_and_are_shared_by_the_arrays_of_one_map() {
        let model = Model::open(SAMPLE).unwrap();
        let tensor = model.tensor("output_norm.weight").unwrap();
        let maps = PrivateMaps::new();
        let [a, b] = [0; 2].map(|_| Array::packed(&tensor, Part::Weight, Some(&maps)).unwrap());
        assert!(a.is_mapped() && a.data() == b.data());
        let before = tensor.bytes(Part::Weight).unwrap().into_owned();
        let managed = a.into_dlpack();
        // SAFETY: the tensor has 256 elements of two bytes, and nothing else uses them.
        unsafe {
            assert_eq!(((*managed).view.ndim, *(*managed).view.shape), (1, 256));
            *(*managed).view.data.cast::<u16>() = 0x1234;
            delete_versioned(managed);
            assert_eq!(*b.data().cast::<u16>(), 0x1234);
        }
        assert_eq!(*tensor.bytes(Part::Weight).unwrap(), *before);
        // SAFETY: as above.
        unsafe { delete(b.into_legacy_dlpack()) };
    }
}
