//! Integers and booleans. Values beyond 2^24 round to the nearest `f32`, ties to even.

use super::{Codec, each};

macro_rules! integer {
    ($name:ident, $type:ty) => {
        pub(crate) static $name: Codec =
            Codec::new(|bytes, out| each(bytes, out, |bytes| <$type>::from_le_bytes(bytes) as f32));
    };
}

integer!(I8, i8);
integer!(I16, i16);
integer!(I32, i32);
integer!(I64, i64);
integer!(U8, u8);
integer!(U16, u16);
integer!(U32, u32);
integer!(U64, u64);

/// One byte each; files hold other values than 0 and 1, and everything but 0 is true.
pub(crate) static BOOL: Codec =
    Codec::new(|bytes, out| each(bytes, out, |[byte]| f32::from(u8::from(byte != 0))));
