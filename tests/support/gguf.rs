//! Writes GGUF files, valid unless a test requests otherwise.

use weighbridge::DType;

/// A metadata value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kv {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    F32(f32),
    Bool(bool),
    String(Vec<u8>),
    /// The type code of the elements, and the elements.
    Array(u32, Vec<Self>),
    U64(u64),
    I64(i64),
    F64(f64),
    /// A type code, and any bytes in place of the value.
    Raw(u32, Vec<u8>),
}

impl Kv {
    pub(crate) fn text(text: &str) -> Self {
        Self::String(text.as_bytes().to_vec())
    }

    pub(crate) fn texts(texts: &[&str]) -> Self {
        Self::Array(8, texts.iter().map(|text| Self::text(text)).collect())
    }

    pub(crate) fn code(&self) -> u32 {
        match self {
            Self::U8(_) => 0,
            Self::I8(_) => 1,
            Self::U16(_) => 2,
            Self::I16(_) => 3,
            Self::U32(_) => 4,
            Self::I32(_) => 5,
            Self::F32(_) => 6,
            Self::Bool(_) => 7,
            Self::String(_) => 8,
            Self::Array(..) => 9,
            Self::U64(_) => 10,
            Self::I64(_) => 11,
            Self::F64(_) => 12,
            Self::Raw(code, _) => *code,
        }
    }
}

/// Writes numbers in the file's byte order, and lengths in its width.
#[derive(Clone, Debug, Default)]
pub(crate) struct Writer {
    pub(crate) out: Vec<u8>,
    pub(crate) big_endian: bool,
    /// Whether lengths take 4 bytes, as in version 1.
    pub(crate) narrow: bool,
}

impl Writer {
    fn number<const N: usize>(self, mut little_endian: [u8; N]) -> Self {
        if self.big_endian {
            little_endian.reverse();
        }
        self.raw(&little_endian)
    }

    pub(crate) fn raw(mut self, bytes: &[u8]) -> Self {
        self.out.extend_from_slice(bytes);
        self
    }

    pub(crate) fn u32(self, number: u32) -> Self {
        self.number(number.to_le_bytes())
    }

    pub(crate) fn u64(self, number: u64) -> Self {
        self.number(number.to_le_bytes())
    }

    pub(crate) fn length(self, length: u64) -> Self {
        if self.narrow {
            self.u32(u32::try_from(length).expect("a length that fits in version 1"))
        } else {
            self.u64(length)
        }
    }

    pub(crate) fn string(self, text: &[u8]) -> Self {
        self.length(text.len() as u64).raw(text)
    }

    pub(crate) fn value(self, value: &Kv) -> Self {
        match value {
            Kv::U8(v) => self.number(v.to_le_bytes()),
            Kv::I8(v) => self.number(v.to_le_bytes()),
            Kv::U16(v) => self.number(v.to_le_bytes()),
            Kv::I16(v) => self.number(v.to_le_bytes()),
            Kv::U32(v) => self.number(v.to_le_bytes()),
            Kv::I32(v) => self.number(v.to_le_bytes()),
            Kv::F32(v) => self.number(v.to_le_bytes()),
            Kv::Bool(v) => self.raw(&[u8::from(*v)]),
            Kv::U64(v) => self.number(v.to_le_bytes()),
            Kv::I64(v) => self.number(v.to_le_bytes()),
            Kv::F64(v) => self.number(v.to_le_bytes()),
            Kv::String(text) => self.string(text),
            Kv::Raw(_, bytes) => self.raw(bytes),
            Kv::Array(code, elements) => {
                let head = self.u32(*code).length(elements.len() as u64);
                elements.iter().fold(head, Self::value)
            }
        }
    }

    pub(crate) fn key(self, key: &[u8], value: &Kv) -> Self {
        self.string(key).u32(value.code()).value(value)
    }
}

/// A tensor to be written.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) name: Vec<u8>,
    /// Outermost first.
    pub(crate) shape: Vec<u64>,
    /// ggml's code of the dtype.
    pub(crate) code: u32,
    pub(crate) bytes: Vec<u8>,
    /// The offset to write, if it differs from the true one.
    pub(crate) offset: Option<u64>,
    /// The number of bytes left free before the data.
    pub(crate) gap: u64,
}

/// A GGUF file to be written.
#[derive(Clone, Debug)]
pub(crate) struct Gguf {
    pub(crate) magic: [u8; 4],
    pub(crate) version: u32,
    pub(crate) big_endian: bool,
    /// The alignment of the data; [`aligned`](Self::aligned) also writes the key.
    pub(crate) alignment: u64,
    pub(crate) keys: Vec<(Vec<u8>, Kv)>,
    pub(crate) tensors: Vec<Entry>,
    /// The counts to write, if they differ from the true ones.
    pub(crate) key_count: Option<u64>,
    pub(crate) tensor_count: Option<u64>,
    /// Extra bytes after the keys and after the tensor table.
    pub(crate) after_keys: Vec<u8>,
    pub(crate) after_table: Vec<u8>,
    /// The order of the data, if it differs from that of the table.
    pub(crate) order: Option<Vec<usize>>,
    /// Whether the file ends without padding after the last tensor.
    pub(crate) unpadded: bool,
}

impl Gguf {
    pub(crate) fn new() -> Self {
        Self {
            magic: *b"GGUF",
            version: 3,
            big_endian: false,
            alignment: 32,
            keys: Vec::new(),
            tensors: Vec::new(),
            key_count: None,
            tensor_count: None,
            after_keys: Vec::new(),
            after_table: Vec::new(),
            order: None,
            unpadded: false,
        }
    }

    /// Changes a field that has no method of its own.
    pub(crate) fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    pub(crate) fn version(self, version: u32) -> Self {
        self.with(|file| file.version = version)
    }

    pub(crate) fn big_endian(self) -> Self {
        self.with(|file| file.big_endian = true)
    }

    pub(crate) fn key(self, key: impl AsRef<[u8]>, value: Kv) -> Self {
        self.with(|file| file.keys.push((key.as_ref().to_vec(), value)))
    }

    pub(crate) fn aligned(self, alignment: u32) -> Self {
        self.key("general.alignment", Kv::U32(alignment))
            .with(|file| file.alignment = alignment.into())
    }

    pub(crate) fn tensor(
        self,
        name: impl AsRef<[u8]>,
        dtype: DType,
        shape: &[u64],
        bytes: impl Into<Vec<u8>>,
    ) -> Self {
        let code = dtype.descriptor().ggml.expect("a dtype that GGUF has");
        self.coded(name, code, shape, bytes)
    }

    /// Adds a tensor with any type code.
    pub(crate) fn coded(
        self,
        name: impl AsRef<[u8]>,
        code: u32,
        shape: &[u64],
        bytes: impl Into<Vec<u8>>,
    ) -> Self {
        let (name, shape, bytes) = (name.as_ref().to_vec(), shape.to_vec(), bytes.into());
        let entry = Entry { name, shape, code, bytes, offset: None, gap: 0 };
        self.with(|file| file.tensors.push(entry))
    }

    /// Writes this offset for the last tensor, regardless of the position of its data.
    pub(crate) fn at(self, offset: u64) -> Self {
        self.last(|entry| entry.offset = Some(offset))
    }

    /// Changes the last tensor.
    pub(crate) fn last(self, change: impl FnOnce(&mut Entry)) -> Self {
        self.with(|file| change(file.tensors.last_mut().expect("a tensor")))
    }

    fn writer(&self) -> Writer {
        let (big_endian, narrow) = (self.big_endian, self.version == 1);
        Writer { out: Vec::new(), big_endian, narrow }
    }

    /// The data, and the offset of each tensor in it.
    fn data(&self) -> (Vec<u8>, Vec<u64>) {
        let in_table: Vec<usize> = (0..self.tensors.len()).collect();
        let order = self.order.as_ref().unwrap_or(&in_table);
        let (mut data, mut offsets) = (Vec::new(), vec![0; self.tensors.len()]);
        for (place, &number) in order.iter().enumerate() {
            let entry = &self.tensors[number];
            pad(&mut data, entry.gap, self.alignment);
            offsets[number] = data.len() as u64;
            data.extend_from_slice(&entry.bytes);
            if !(self.unpadded && place + 1 == order.len()) {
                pad(&mut data, 0, self.alignment);
            }
        }
        (data, offsets)
    }

    /// The bytes before the data, padding included.
    pub(crate) fn header(&self) -> Vec<u8> {
        let (_, offsets) = self.data();
        let mut writer = self.writer().raw(&self.magic).u32(self.version);
        writer = writer.length(self.tensor_count.unwrap_or(self.tensors.len() as u64));
        writer = writer.length(self.key_count.unwrap_or(self.keys.len() as u64));
        writer = self.keys.iter().fold(writer, |writer, (key, value)| writer.key(key, value));
        writer = writer.raw(&self.after_keys);
        for (entry, offset) in self.tensors.iter().zip(offsets) {
            let rank = u32::try_from(entry.shape.len()).expect("some dimensions");
            writer = writer.string(&entry.name).u32(rank);
            writer = entry.shape.iter().rev().fold(writer, |writer, &dim| writer.length(dim));
            writer = writer.u32(entry.code).u64(entry.offset.unwrap_or(offset));
        }
        writer = writer.raw(&self.after_table);
        if !self.tensors.is_empty() {
            pad(&mut writer.out, 0, self.alignment);
        }
        writer.out
    }

    pub(crate) fn build(&self) -> Vec<u8> {
        let mut file = self.header();
        file.extend_from_slice(&self.data().0);
        file
    }
}

/// Adds `gap` zeros, and more up to a multiple of `alignment`.
fn pad(out: &mut Vec<u8>, gap: u64, alignment: u64) {
    let padded = (out.len() as u64 + gap).next_multiple_of(alignment.max(1));
    out.resize(usize::try_from(padded).expect("a small file"), 0);
}
