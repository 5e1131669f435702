//! The tensors of a store, in order or by name.

use super::StoredTensor;
use crate::bytes::Text;
use crate::error::{Error, Result};
use crate::store::Store;
use crate::store::listing::NO_GROUP;

impl Store {
    /// All tensors, in file order.
    pub(crate) fn tensors(&self) -> impl Iterator<Item = StoredTensor<'_>> {
        let heads = move |number: &u32| match self.entry(*number).map(|entry| entry.group) {
            None | Some(NO_GROUP) => true,
            Some(group) => self.groups.get(group as usize).is_some_and(|g| g.head == *number),
        };
        let count = u32::try_from(self.listing.len()).unwrap_or(u32::MAX);
        (0..count).filter(heads).map(|number| StoredTensor::new(self, number))
    }

    /// The tensor with this stored name, or with this [spelling](Text::spelling) if the name is not
    /// UTF-8.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is none; the advice names the most similar tensor.
    pub(crate) fn tensor(&self, stored_name: &str) -> Result<StoredTensor<'_>> {
        let Some(number) = self.number(stored_name) else {
            let unusual = self.tensors().find(|tensor| {
                tensor.name().to_str().is_none() && tensor.name().spelling() == stored_name
            });
            return unusual.ok_or_else(|| self.no_tensor(stored_name));
        };
        let entry = self.entry(number);
        let group = entry.and_then(|entry| self.groups.get(entry.group as usize));
        match group.filter(|group| group.head != number) {
            None => Ok(StoredTensor::new(self, number)),
            Some(group) => {
                let whole = self.entry_name(group.head);
                let name = Text::new(stored_name.as_bytes());
                Err(Error::not_found(format!("\"{name}\" is not a tensor but a part of one"))
                    .in_file(&self.path)
                    .advise(format!("use \"{whole}\"")))
            }
        }
    }

    /// Like `tensor`, but returns `None` instead of building an error, which searches for similar
    /// names.
    pub(crate) fn find(&self, stored_name: &str) -> Option<StoredTensor<'_>> {
        let number = self.number(stored_name)?;
        let group = self.groups.get(self.entry(number)?.group as usize);
        group.is_none_or(|group| group.head == number).then(|| StoredTensor::new(self, number))
    }

    fn no_tensor(&self, wanted: &str) -> Error {
        let fault = format!("no tensor \"{}\"", Text::new(wanted.as_bytes()));
        let error = Error::not_found(fault).in_file(&self.path);
        match nearest(wanted, self.tensors().map(|tensor| tensor.name().spelling().into_owned())) {
            Some(name) => error.advise(format!("the most similar name is \"{name}\"")),
            None => error.advise("`inspect` lists the names"),
        }
    }
}

/// The name that is most similar to `wanted`: the one with the longest common suffix and prefix.
pub(crate) fn nearest<N: AsRef<str>>(wanted: &str, names: impl Iterator<Item = N>) -> Option<N> {
    let likeness = |name: &str| {
        let same = |(a, b): &(u8, u8)| a == b;
        let tail = name.bytes().rev().zip(wanted.bytes().rev()).take_while(same).count();
        tail + name.bytes().zip(wanted.bytes()).take_while(same).count()
    };
    let likest = names.map(|name| (likeness(name.as_ref()), name)).max_by_key(|(alike, _)| *alike);
    likest.filter(|(alike, _)| *alike >= 4).map(|(_, name)| name)
}
