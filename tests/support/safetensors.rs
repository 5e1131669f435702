//! Writes safetensors files, valid unless a test requests otherwise.

/// An array to be written.
#[derive(Clone, Debug)]
pub(crate) struct Array {
    pub(crate) name: String,
    pub(crate) dtype: String,
    pub(crate) shape: Vec<u64>,
    pub(crate) bytes: Vec<u8>,
}

/// A safetensors file to be written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Safetensors {
    pub(crate) metadata: Vec<(String, String)>,
    pub(crate) arrays: Vec<Array>,
    /// The header to write, if it differs from that of the arrays.
    pub(crate) text: Option<Vec<u8>>,
    /// The length to write, if it differs from the true one.
    pub(crate) length: Option<u64>,
    /// Whether names are written with an escape for each character.
    pub(crate) escape: bool,
    /// Whether white space is written between all tokens.
    pub(crate) spaced: bool,
    /// Extra bytes after the arrays.
    pub(crate) after: Vec<u8>,
}

impl Safetensors {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// A file with this header and this data.
    pub(crate) fn text(header: impl AsRef<[u8]>, data: impl Into<Vec<u8>>) -> Self {
        let text = Some(header.as_ref().to_vec());
        Self { text, after: data.into(), ..Self::default() }
    }

    /// Changes a field that has no method of its own.
    pub(crate) fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    pub(crate) fn metadata(self, key: &str, value: &str) -> Self {
        self.with(|file| file.metadata.push((key.to_owned(), value.to_owned())))
    }

    pub(crate) fn tensor(
        self,
        name: &str,
        dtype: &str,
        shape: &[u64],
        bytes: impl Into<Vec<u8>>,
    ) -> Self {
        let (name, dtype) = (name.to_owned(), dtype.to_owned());
        let array = Array { name, dtype, shape: shape.to_vec(), bytes: bytes.into() };
        self.with(|file| file.arrays.push(array))
    }

    /// The JSON text.
    pub(crate) fn header(&self) -> Vec<u8> {
        if let Some(text) = &self.text {
            return text.clone();
        }
        let quote = if self.escape { escaped } else { quoted };
        let mut items = Vec::new();
        if !self.metadata.is_empty() {
            let pairs: Vec<String> = self
                .metadata
                .iter()
                .map(|(key, value)| format!("{}:{}", quote(key), quote(value)))
                .collect();
            items.push(format!("\"__metadata__\":{{{}}}", pairs.join(",")));
        }
        let mut begin = 0;
        for array in &self.arrays {
            let end = begin + array.bytes.len();
            let shape: Vec<String> = array.shape.iter().map(u64::to_string).collect();
            items.push(format!(
                "{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{begin},{end}]}}",
                quote(&array.name),
                array.dtype,
                shape.join(","),
            ));
            begin = end;
        }
        let text = format!("{{{}}}", items.join(","));
        if self.spaced { spaced(&text) } else { text }.into_bytes()
    }

    pub(crate) fn build(&self) -> Vec<u8> {
        let header = self.header();
        let mut file = self.length.unwrap_or(header.len() as u64).to_le_bytes().to_vec();
        file.extend_from_slice(&header);
        for array in &self.arrays {
            file.extend_from_slice(&array.bytes);
        }
        file.extend_from_slice(&self.after);
        file
    }
}

/// Adds white space after every token that is not a string.
fn spaced(text: &str) -> String {
    let (mut out, mut in_string, mut escaped) = (String::new(), false, false);
    for c in text.chars() {
        out.push(c);
        in_string ^= c == '"' && !escaped;
        escaped = in_string && c == '\\' && !escaped;
        if !in_string && "{}[]:,".contains(c) {
            out.push_str("\t \n");
        }
    }
    // What follows the last brace is padding, with rules of its own.
    out.truncate(out.trim_end().len());
    out
}

/// A JSON string in the usual form.
pub(crate) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A JSON string with an escape for each character.
pub(crate) fn escaped(text: &str) -> String {
    let units: String = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
    format!("\"{units}\"")
}

/// The text of `model.safetensors.index.json`.
pub(crate) fn index(map: &[(&str, &str)]) -> String {
    let pairs: Vec<String> =
        map.iter().map(|(name, file)| format!("{}:{}", quoted(name), quoted(file))).collect();
    format!("{{\"metadata\":{{\"total_size\":0}},\"weight_map\":{{{}}}}}", pairs.join(","))
}
