//! Writes files of whisper.cpp: a header, followed by tensors.

use weighbridge::DType;

use super::{Writer, f32s};

/// A file of whisper.cpp to be written. Tests that need a fault change its bytes.
#[derive(Clone, Debug)]
pub(crate) struct WhisperGgml {
    pub(crate) header: Vec<u8>,
    pub(crate) tensors: Vec<u8>,
}

/// Numbers in the form of a header.
fn numbers(numbers: &[u32]) -> Writer {
    let writer = Writer { narrow: true, ..Writer::default() }.raw(b"lmgg");
    numbers.iter().fold(writer, |writer, &number| writer.u32(number))
}

fn vocabulary(writer: Writer, pieces: &[&[u8]]) -> WhisperGgml {
    let writer = writer.length(pieces.len() as u64);
    let header = pieces.iter().fold(writer, |writer, piece| writer.string(piece)).out;
    WhisperGgml { header, tensors: Vec::new() }
}

impl WhisperGgml {
    /// A whisper model with these numbers of audio and text layers, before its tensors. It has
    /// filters of 2 bands by 3, and its vocabulary begins at byte 80.
    pub(crate) fn whisper(audio: u32, text: u32, pieces: &[&[u8]]) -> Self {
        let header = numbers(&[5, 8, 32, 2, audio, 4, 32, 2, text, 2, 2008, 2, 3]);
        vocabulary(header.raw(&f32s(&[0.0, 0.5, 1.0, 1.5, 2.0, 2.5])), pieces)
    }

    /// A parakeet model without layers, before its 19 tensors.
    pub(crate) fn parakeet() -> Self {
        let header = numbers(&[2, 8, 4, 2, 0, 2, 0, 6, 8, 4, 3, 5, 0, 2, 5, 2, 1]);
        let header = header.raw(&f32s(&[0.25, 0.75])).u32(3).raw(&f32s(&[0.0, 1.0, 0.0]));
        vocabulary(header.u32(0).u32(1), &[b"<unk>", b"a"])
    }

    /// A silero model of one encoder layer, before its 9 tensors.
    pub(crate) fn silero() -> Self {
        let header = numbers(&[]).string(b"silero-16k").u32(6).u32(2).u32(0).u32(512).u32(64);
        let header = header.u32(1).u32(129).u32(128).u32(3);
        let header = header.u32(128).u32(128).u32(128).u32(1).out;
        Self { header, tensors: Vec::new() }
    }

    /// A whole whisper model without layers: a quantized matrix, a convolution and small tensors.
    pub(crate) fn small() -> Self {
        const NAMES: [&str; 9] = [
            "encoder.positional_embedding",
            "encoder.conv1.bias",
            "encoder.conv2.weight",
            "encoder.conv2.bias",
            "encoder.ln_post.weight",
            "encoder.ln_post.bias",
            "decoder.positional_embedding",
            "decoder.ln.weight",
            "decoder.ln.bias",
        ];
        let file = Self::whisper(0, 0, &[b"a", b"", b"\xff\xfe"])
            .tensor("decoder.token_embedding.weight", DType::Q8_0, &[2, 32], [1; 68])
            .tensor("encoder.conv1.weight", DType::F16, &[1, 2, 3], [0, 0x3c].repeat(6));
        NAMES.iter().fold(file, |file, name| file.tensor(name, DType::F32, &[1], f32s(&[1.0])))
    }

    pub(crate) fn tensor(
        self,
        name: impl AsRef<[u8]>,
        dtype: DType,
        shape: &[u64],
        bytes: impl AsRef<[u8]>,
    ) -> Self {
        self.coded(name, dtype.descriptor().ggml.expect("a dtype of ggml"), shape, bytes)
    }

    /// Adds a tensor with any type code.
    pub(crate) fn coded(
        mut self,
        name: impl AsRef<[u8]>,
        code: u32,
        shape: &[u64],
        bytes: impl AsRef<[u8]>,
    ) -> Self {
        let small = |number: usize| u32::try_from(number).expect("a small number");
        let (name, bytes) = (name.as_ref(), bytes.as_ref());
        let writer = Writer { out: self.tensors, ..Writer::default() };
        let writer = writer.u32(small(shape.len())).u32(small(name.len())).u32(code);
        let dims = shape.iter().rev().map(|&dim| u32::try_from(dim).expect("a small dimension"));
        self.tensors = dims.fold(writer, Writer::u32).raw(name).raw(bytes).out;
        self
    }

    /// Adds `count` tensors of one value each.
    pub(crate) fn filled(self, count: usize) -> Self {
        (0..count).fold(self, |file, n| file.tensor(format!("t{n}"), DType::F32, &[], f32s(&[1.0])))
    }

    pub(crate) fn build(&self) -> Vec<u8> {
        [&*self.header, &*self.tensors].concat()
    }

    /// The file with the number at one offset replaced.
    pub(crate) fn patched(&self, at: usize, number: i32) -> Vec<u8> {
        let mut file = self.build();
        file[at..at + 4].copy_from_slice(&number.to_le_bytes());
        file
    }
}
